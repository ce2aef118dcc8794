"""The outcome of a message whose sender waits for it: a future that nobody else gets to see.

A Future has states, a condition and waiters: a tenth of a small send. One that waits needs a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import InvalidStateError

from orderly.model import SendResult


class Awaited:
    """As much of `Future` as a sender needs that waits at once and cannot cancel."""

    __slots__ = ("_outcome", "_then", "_told")

    def __init__(self) -> None:
        self._outcome: SendResult | BaseException | None = None
        self._then: Callable[[object], object] | None = None
        self._told = threading.Lock()
        self._told.acquire()

    def set_running_or_notify_cancel(self) -> bool:
        """It is never cancelled."""
        return True

    def add_done_callback(self, call: Callable[[object], object]) -> None:
        """Have `call` run with the outcome; one only, set before anybody can know the outcome."""
        self._then = call

    def done(self) -> bool:
        """Whether the outcome is there."""
        return self._outcome is not None

    def set_result(self, result: SendResult) -> None:
        """Tell that it is stored."""
        self._set(result)

    def set_exception(self, error: BaseException) -> None:
        """Tell that it failed."""
        self._set(error)

    def result(self) -> SendResult:
        """Wait, once, for the outcome; raises the error."""
        self._told.acquire()
        if isinstance(self._outcome, SendResult):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome

    def _set(self, outcome: SendResult | BaseException) -> None:
        if self._outcome is not None:
            raise InvalidStateError("the outcome was told before")
        self._outcome = outcome
        if self._then is not None:
            self._then(self)
        self._told.release()
