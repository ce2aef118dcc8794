"""Handler calls that run longer than `handler_timeout`: reported, and stopped where possible.

A worker process is killed and a coroutine cancelled. A thread cannot be stopped: only the end of
the whole process frees its queue.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, cast

from orderly.config import is_async
from orderly.consumer.session import Session
from orderly.errors import HandlerHung
from orderly.log import key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.blame import name_untried
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.results import Answer

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
_LAST_WORDS = 5.0  # seconds the log may take for them


def hang_stage(seconds: float, timeout: float) -> int:
    """How long a call has run: 0 within `timeout`, then 1, and one more at each doubling."""
    return 0 if seconds < timeout else 1 + int(math.log2(seconds / timeout))


def ends_process(on_hang: str, *, stoppable: bool, again: bool) -> bool:
    """Whether a call that hangs ends the whole process.

    Args:
        on_hang: of the configuration.
        stoppable: it was asked to stop, and is given as long again to do so.
        again: it was logged before.
    """
    return on_hang == "exit" and (again or not stoppable)


def interval(timeout: float) -> float:
    """Seconds between two looks at the running calls."""
    return min(max(timeout / 4, 0.25), 5.0)


class HangWatch:
    """Looks for calls that hang. One thread calls `round`.

    Args:
        session: the consumer's shared state; its configuration has a `handler_timeout`.
        calls: those that run.
        kill: ends the worker process that runs a call; None: handlers run in this process.
    """

    def __init__(
        self, session: Session, calls: RunningCalls, kill: Callable[[ConsumeContext], None] | None
    ) -> None:
        self._session = session
        self._calls = calls
        self._kill = kill

    def round(self) -> None:
        """Look once."""
        timeout = self._session.config.handler_timeout
        assert timeout is not None, "without a limit nothing hangs"
        for call in self._calls.running(timeout):
            seconds = call.seconds
            logged, call.stage = call.stage, hang_stage(seconds, timeout)
            if call.stage > logged:
                self._act(call, seconds, again=logged > 0)

    def _act(self, call: RunningCall, seconds: float, *, again: bool) -> None:
        stack = self._calls.stack(call)
        if stack is None:  # it ended just now
            return
        on_hang, stoppable = self._session.config.on_hang, call.task is not None
        ends = ends_process(on_hang, stoppable=stoppable, again=again)
        if ends:
            _end_within(_LAST_WORDS)
        self._stop(call)
        at = self._place(call)
        fields: dict[str, object] = {"seconds": round(seconds, 1)}
        if self._kill is None:  # else it runs in another process: here one only waits for it
            fields["stack"] = stack
        self._session.log.error("handler.hung", **at, **fields)
        if ends:
            self._exit(at)

    def _stop(self, call: RunningCall) -> None:
        if self._kill is not None:
            self._kill(call.context)
        self._calls.cancel(call)

    def _place(self, call: RunningCall) -> dict[str, object]:
        context = call.context
        at = where(context.group, context.message_queue, call.messages[0])
        if self._session.by_key(context.message_queue.topic):
            at["key"] = key_text(context.key)
        return at

    def _exit(self, at: dict[str, object]) -> None:
        """End the process, even if its threads hang."""
        try:
            self._session.log.critical("process.exits", **at, exit_code=EXIT_CODE)
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
        finally:
            os._exit(EXIT_CODE)


def _end_within(seconds: float) -> None:
    """See that the process ends even if nothing can be logged: who hangs may hold a lock of it."""
    with suppress(RuntimeError):  # there is no thread to be had
        threading.Timer(seconds, os._exit, (EXIT_CODE,)).start()


# --- the handler calls that run now ---------------------------------------------------------------
# They are noted only where somebody asks for how long they have run. A call is noted around the
# handler itself, on its own thread or in its own task, so that what a consumer does before and
# after it does not count.


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call of the handler.

    Attributes:
        messages, context: what it was called with.
        since: when it began (seconds of `awake`).
        thread: the identity of its thread; of a coroutine that of the loop's thread.
        awake: the clock: the time in which this process ran, for in no other can a handler run.
        task: of a coroutine; None: it is no coroutine.
        stage: what was logged of it (see `hang_stage`).
        cancelled: it was asked to stop because it hangs.
    """

    messages: Sequence[ReceivedMessage]
    context: ConsumeContext
    since: float
    thread: int
    awake: Callable[[], float]
    task: asyncio.Task[Any] | None = None
    stage: int = 0
    cancelled: bool = False

    @property
    def seconds(self) -> float:
        """For how long it has been running."""
        return max(0.0, self.awake() - self.since)


class RunningCalls:
    """Thread-safe.

    Args:
        awake: the time in which this process ran (seconds).
    """

    def __init__(self, awake: Callable[[], float]) -> None:
        self._awake = awake
        self._calls: set[RunningCall] = set()
        self._lock = threading.Lock()

    def around(self, handler: Handler | AsyncHandler) -> Handler | AsyncHandler:
        """Return `handler` with each of its calls noted here while it runs."""
        if is_async(handler):
            return self._around_coroutine(cast("AsyncHandler", handler))
        return self._around_function(cast("Handler", handler))

    def running(self, seconds: float) -> list[RunningCall]:
        """The calls that have been running for at least so long, the longest first."""
        with self._lock:
            found = [call for call in self._calls if call.seconds >= seconds]
        return sorted(found, key=lambda call: call.since)

    def stack(self, call: RunningCall) -> str | None:
        """Where it is now, without the values of variables; None: it is over."""
        with self._lock:  # it cannot end meanwhile, so the stack is that of no later call
            if call not in self._calls:
                return None
            if call.task is None:
                return thread_stack(call.thread)
            return coroutine_stack(call.task.get_coro()) or thread_stack(call.thread)

    def cancel(self, call: RunningCall) -> None:
        """Ask a coroutine to stop, once; its call then ends with HandlerHung."""
        if call.task is not None and not call.cancelled:
            with suppress(RuntimeError):  # its loop is closed: nothing runs there any more
                call.task.get_loop().call_soon_threadsafe(self._cancel, call)

    def _cancel(self, call: RunningCall) -> None:
        if call in self._calls and not call.cancelled:  # on its loop, so it cannot end meanwhile
            call.cancelled = True
            assert call.task is not None, "only coroutines are cancelled"
            call.task.cancel("the handler hangs")

    def _begin(
        self,
        messages: Sequence[ReceivedMessage],
        context: ConsumeContext,
        task: asyncio.Task[Any] | None = None,
    ) -> RunningCall:
        awake = self._awake
        call = RunningCall(messages, context, awake(), threading.get_ident(), awake, task)
        with self._lock:
            self._calls.add(call)
        return call

    def _end(self, call: RunningCall) -> None:
        with self._lock:
            self._calls.discard(call)

    def _around_function(self, handler: Handler) -> Handler:
        def noted(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
            call = self._begin(messages, context)
            try:
                return handler(messages, context)
            finally:
                self._end(call)

        return noted

    def _around_coroutine(self, handler: AsyncHandler) -> AsyncHandler:
        async def noted(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
            task = asyncio.current_task()
            assert task is not None, "a coroutine runs in a task"
            before = task.cancelling()
            call = self._begin(messages, context, task)
            try:
                return await handler(messages, context)
            except asyncio.CancelledError as error:
                if not call.cancelled or task.cancelling() > before + 1:  # others asked it to
                    raise
                return _answer_of_hung(handler, messages, context, error)
            finally:
                self._end(call)
                if call.cancelled:
                    task.uncancel()  # the task goes on with other messages

        return noted


def _answer_of_hung(
    handler: AsyncHandler,
    messages: Sequence[ReceivedMessage],
    context: ConsumeContext,
    cause: asyncio.CancelledError,
) -> Answer:
    """What a handler that was cancelled answers, if it has a say in it: a listener has."""
    error = HandlerHung("the handler ran too long and was cancelled")
    error.__cause__ = cause
    failed: Callable[..., Answer] | None = getattr(handler, "call_failed", None)
    if failed is None:
        name_untried(messages, context)
        raise error
    return failed(messages, context, error)


# --- stacks ---------------------------------------------------------------------------------------
# Where a thread or a coroutine is at this moment, as text without the values of variables.


_LONGEST = 4000  # characters; what is inside counts, so the outer calls are cut off


def thread_stack(identity: int) -> str:
    """The stack of a thread of this process; empty if it has ended.

    Args:
        identity: as `threading.get_ident` says.
    """
    frame = sys._current_frames().get(identity)  # noqa: SLF001 - the only way to it
    return "" if frame is None else _text(reversed(list(traceback.walk_stack(frame))))


def coroutine_stack(coroutine: object) -> str:
    """Where a suspended coroutine waits; empty if it runs: then ask for its thread's stack.

    `Task.get_stack` shows only the outermost `await`; this one goes on to what that waits for.
    """
    if getattr(coroutine, "cr_running", False):
        return ""
    return _text(_frames(coroutine))


def _frames(waiting: Any) -> Iterator[tuple[FrameType, int]]:
    while waiting is not None:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            yield frame, frame.f_lineno
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)


def _text(frames: Iterable[tuple[FrameType, int]]) -> str:
    text = "".join(traceback.StackSummary.extract(iter(frames)).format())
    return text if len(text) <= _LONGEST else f"…{text[-_LONGEST:]}"
