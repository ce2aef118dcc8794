"""Interruptions: exceptions that end a call of the program between any two of its steps.

Ctrl-C raises KeyboardInterrupt in the main thread, and an alarm's handler raises what it likes. It
can come between taking a lock and holding it in a `with`, or between counting something and noting
that it was counted. Threads of this library are never interrupted, so there are three ways to be
safe: a call runs on a thread of its own (`shielded`); or what it leaves half done is made whole by
the clause that catches the interruption, which first lets go of its locks (`let_go`); or one step
in C does all of it. What is caught is always raised again.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Generic, TypeVar

from orderly.signals import LOOK

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")

_OURS = "orderly-"  # how the names of all threads of this library begin


def let_go(lock: threading.RLock | threading.Condition) -> None:
    """Release a lock that an interruption may have left with this thread.

    A `with` releases what it holds. But an interruption can come when the lock is taken and not
    held yet, or when the `with` has begun to end.
    """
    while held_here(lock):
        lock.release()


def held_here(lock: threading.RLock | threading.Condition) -> bool:
    """Whether this thread holds the lock; what a Condition asks of its lock, too."""
    return bool(lock._is_owned())  # type: ignore[union-attr]  # noqa: SLF001


def ours() -> bool:
    """Whether this thread is one of this library's, which nobody interrupts."""
    return threading.current_thread().name.startswith(_OURS)


def shielded(work: Callable[[], T]) -> T:
    """Run `work` on a thread of its own and wait for it; an interruption ends only the wait.

    On a thread of this library it runs at once. It sees the caller's context variables.
    """
    return work() if ours() else Shielded(work).result()


class Shielded(Generic[T]):
    """A call of `work` on a thread of its own, for one that undoes it after an interruption.

    The caller asks for `result()`. If something is raised there, it calls `undo`, and raises it on.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._context = copy_context()
        self._results: list[T] = []
        self._errors: list[BaseException] = []
        self._undo: list[Callable[[], object]] = []
        self._ended = threading.Lock()
        self._ended.acquire()

    def result(self) -> T:
        """Begin it, wait for it, and return or raise what it did."""
        try:
            if ours():
                self._run()
            else:
                _begin(self._run, "shielded")
        except RuntimeError as error:
            if "new thread" not in str(error):  # else there can be none any more
                raise
            self._run()
        self._ended.acquire()
        if self._errors:
            raise self._errors[0]
        return self._results[0]

    def undo(self, undo: Callable[[], object]) -> None:
        """Call `undo` on another thread once the work has succeeded, perhaps twice; else never."""
        self._undo.append(undo)
        if self._results:
            _begin(undo, "undoing")

    def _run(self) -> None:
        try:
            self._results.append(self._context.run(self._work))
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self._errors.append(error)
        self._ended.release()
        for undo in self._undo:
            undo()


def _begin(work: Callable[[], object], name: str) -> None:
    threading.Thread(target=work, name=f"{_OURS}{name}", daemon=True).start()


def in_thread_of_its_own(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run `function` on a new thread; the result is to be awaited on the running loop.

    It runs to its end, also when nobody awaits it any more, and sees the caller's context
    variables. The event loop's default executor has few threads, and the program needs them: one
    silent broker must not take the last one.

    Args:
        function: may block.
        name: of the thread.
    """
    import asyncio  # noqa: PLC0415  commands that ask a broker once do without

    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # from now on it cannot be cancelled
    context = copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(function))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(outcome)


async def to_its_end(function: Callable[[], T], name: str) -> T:
    """Run `function` on a new thread; returns, or is cancelled, only once it has ended.

    A thread's work cannot be taken back: whoever cancels the task waits for it, however often it
    is cancelled. So `function` must end by itself. Arguments as of `in_thread_of_its_own`.
    """
    import asyncio  # noqa: PLC0415  as there

    working = in_thread_of_its_own(function, name)
    try:
        return await asyncio.shield(working)
    finally:
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        working.exception()  # seen, also where the task was cancelled meanwhile


# --- waiting for another thread -------------------------------------------------------------------
# A threading.Condition is held for a moment at the beginning and at the end of a wait: whoever is
# interrupted then keeps it for ever, and the thread that wants to notify stands. Here everybody
# sleeps on a lock of their own.


class Bell:
    """Wakes those who wait until something is so. One who is interrupted disturbs nobody.

    Attributes:
        asleep: what they sleep on; empty if nobody does.
    """

    def __init__(self) -> None:
        self.asleep: deque[threading.Lock] = deque()

    def ring(self) -> None:
        """Have all who wait look again."""
        with suppress(IndexError):  # somebody else woke the last one
            while self.asleep:
                self.asleep.popleft().release()

    def wait_for(self, condition: Callable[[], object], timeout: float | None) -> bool:
        """Wait until `condition` holds; False if `timeout` seconds pass before (None: no limit).

        It is looked at after each ring, and now and then: who should have rung can be interrupted.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        sleeper: threading.Lock | None = None
        while not condition():
            left = end - time.monotonic()
            if left <= 0:
                self._forget(sleeper)
                return False
            if sleeper is None:
                sleeper = threading.Lock()
                sleeper.acquire()
                self.asleep.append(sleeper)
            elif sleeper.acquire(timeout=min(left, LOOK)):
                sleeper = None  # it was rung
        self._forget(sleeper)
        return True

    def _forget(self, sleeper: threading.Lock | None) -> None:
        if sleeper in self.asleep:
            with suppress(ValueError):  # it was rung at this moment
                self.asleep.remove(sleeper)  # type: ignore[arg-type]


class Latch:
    """A threading.Event for one that waits in the program's thread."""

    def __init__(self) -> None:
        self._set = False
        self._bell = Bell()

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._set

    def set(self) -> None:
        """Let all pass, now and later."""
        self._set = True
        self._bell.ring()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `set`; False if `timeout` seconds pass before."""
        return self._bell.wait_for(self.is_set, timeout)
