"""The outcome of a sent message: a standard future, or a lock for a caller that waits at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from operator import attrgetter
from typing import Any, final

from orderly.interruptions import let_go
from orderly.model import SendResult

_changing = threading.RLock()  # of any future; held for a few steps, never while waiting


class _Condition(threading.Condition):
    """A condition that is entered and left in C: no interruption can come between and keep it."""

    __enter__ = property(attrgetter("_lock.__enter__"))
    __exit__ = property(attrgetter("_lock.__exit__"))


@final
class SendFuture(Future[SendResult]):
    """What `submit` returns; to its user a `concurrent.futures.Future` like any other.

    The standard one makes a condition with a lock and a deque for itself: 1.3 kB and a quarter of
    the time of a submit, though nobody waits for most messages before they are stored. Here it is
    made for the first who waits or cancels; from then on all is the standard's.

    Args:
        first: called with the future before all callbacks; can be called twice.
    """

    def __init__(self, first: Callable[[Future[SendResult]], object] | None = None) -> None:
        # not the standard's, which makes the condition
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters: Any = ()  # lists once there is a condition; what is never made is never
        self._done_callbacks: Any = ()  # looked at by the garbage collector, which took a fifth
        self._made: threading.Condition | None = None
        self._first = first

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]  # never written
        try:
            with _changing:
                if self._made is None:
                    self._waiters, self._done_callbacks = [], list(self._done_callbacks)
                    self._made = _Condition()
                return self._made
        except BaseException:  # an interruption
            let_go(_changing)
            raise

    def set_running_or_notify_cancel(self) -> bool:
        """As the standard's."""
        try:
            with _changing:
                if self._made is None and self._state == PENDING:
                    self._state = RUNNING
                    return True
        except BaseException:  # an interruption
            let_go(_changing)
            raise
        return super().set_running_or_notify_cancel()

    def claim(self) -> bool:
        """As `set_running_or_notify_cancel`, again and again: it, or a cancel, can be cut off."""
        if self._state == RUNNING:
            return True
        if self._state == CANCELLED_AND_NOTIFIED or not self.set_running_or_notify_cancel():
            if self._first is not None:
                self._first(self)
            return False
        return True

    def set_result(self, result: SendResult) -> None:
        """As the standard's."""
        with _changing:
            alone = self._made is None and self._state in (PENDING, RUNNING)
            if alone:
                self._result = result
                self._state = FINISHED
        if alone:
            self._invoke_callbacks()
        else:
            super().set_result(result)

    def add_done_callback(self, fn: Callable[[Future[SendResult]], object]) -> None:
        """As the standard's."""
        try:
            with _changing:
                alone = self._made is None and self._state in (PENDING, RUNNING)
                if alone:
                    self._done_callbacks += (fn,)
        except BaseException:  # an interruption
            let_go(_changing)
            raise
        if not alone:
            super().add_done_callback(fn)

    def _invoke_callbacks(self) -> None:
        if self._first is not None:  # not as one of them: what it raises would be swallowed
            self._first(self)
        if self._done_callbacks:
            super()._invoke_callbacks()  # type: ignore[misc]  # not in the stubs

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
    """As much of `Future` as a sender needs that waits at once and cannot cancel.

    Args:
        first: called when the outcome is known, before the waiter; can be called twice.
    """

    __slots__ = ("_first", "_known", "_outcome")

    def __init__(self, first: Callable[[SyncResult], object] | None = None) -> None:
        self._outcome: SendResult | BaseException | None = None
        self._first = first
        self._known = threading.Lock()
        self._known.acquire()

    def claim(self) -> bool:
        """It is never cancelled."""
        return True

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
        """Set it, the first time. An interruption here leaves nobody waiting: it is the waiter's.

        Then another thread does it again.
        """
        if self._first is not None:
            self._first(self)
        if self._outcome is None:
            self._outcome = outcome
            self._known.release()
