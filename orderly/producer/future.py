"""The outcome of a sent message: a standard future, or a lock for a caller that waits at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from typing import Any, final

from orderly.model import SendResult

_changing = threading.Lock()  # of any future; held for a few steps, never while waiting


@final
class SendFuture(Future[SendResult]):
    """What `submit` returns; to its user a `concurrent.futures.Future` like any other.

    The standard one makes a condition with a lock and a deque for itself: 1.3 kB and a quarter of
    the time of a submit, though nobody waits for most messages before they are stored. Here it is
    made for the first who waits or cancels; from then on all is the standard's.
    """

    def __init__(self) -> None:  # not the standard's, which makes the condition
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters: Any = ()  # lists once there is a condition; what is never made is never
        self._done_callbacks: Any = ()  # looked at by the garbage collector, which took a fifth
        self._made: threading.Condition | None = None

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # never written
        with _changing:
            if self._made is None:
                self._waiters, self._done_callbacks = [], list(self._done_callbacks)
                self._made = threading.Condition()
            return self._made

    def set_running_or_notify_cancel(self) -> bool:
        """As the standard's."""
        with _changing:
            if self._made is None and self._state == PENDING:
                self._state = RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: SendResult) -> None:
        """As the standard's."""
        with _changing:
            alone = self._made is None and self._state in (PENDING, RUNNING)
            if alone:
                self._result = result
                self._state = FINISHED
        if alone:
            self._invoke_callbacks()  # type: ignore[attr-defined]  # not in the stubs
        else:
            super().set_result(result)

    def add_done_callback(self, fn: Callable[[Future[SendResult]], object]) -> None:
        """As the standard's."""
        with _changing:
            alone = self._made is None and self._state in (PENDING, RUNNING)
            if alone:
                self._done_callbacks += (fn,)
        if not alone:
            super().add_done_callback(fn)

    def done(self) -> bool:
        """As the standard's."""
        return self._state not in (PENDING, RUNNING)

    def result(self, timeout: float | None = None) -> SendResult:
        """As the standard's."""
        if self._state == FINISHED and self._result is not None:
            return self._result
        return super().result(timeout)


# --- for a caller that waits: a future that nobody else gets to see -------------------------------
# A Future has states, a condition and waiters: a tenth of a small send. One that waits needs a
# lock.


class SyncResult:
    """As much of `Future` as a sender needs that waits at once and cannot cancel."""

    __slots__ = ("_known", "_outcome", "_then")

    def __init__(self) -> None:
        self._outcome: SendResult | BaseException | None = None
        self._then: Callable[[object], object] | None = None
        self._known = threading.Lock()
        self._known.acquire()

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
        """Set where it is stored."""
        self._set(result)

    def set_exception(self, error: BaseException) -> None:
        """Set why it failed."""
        self._set(error)

    def result(self) -> SendResult:
        """Wait, once, for the outcome; raises the error."""
        self._known.acquire()
        if isinstance(self._outcome, SendResult):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome

    def _set(self, outcome: SendResult | BaseException) -> None:
        if self._outcome is not None:
            raise InvalidStateError("the outcome was set before")
        self._outcome = outcome
        if self._then is not None:
            self._then(self)
        self._known.release()
