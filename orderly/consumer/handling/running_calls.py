"""The handler calls that run now, noted only where somebody asks for how long they have run.

A call is noted around the handler itself, on its own thread or in its own task, so that what a
consumer does before and after it does not count.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, cast

from orderly.config import is_async
from orderly.consumer.telling.stacks import coroutine_stack, thread_stack
from orderly.errors import HandlerHung
from orderly.model import ReceivedMessage
from orderly.ordering.context import AsyncHandler, ConsumeContext, Handler
from orderly.ordering.outcomes import Answer


@dataclass(slots=True, eq=False)
class RunningCall:
    """One call of the handler.

    Attributes:
        messages, context: what it was called with.
        since: when it began (seconds). On a clock that stands still while the machine sleeps, for
            then a handler cannot run either.
        thread: the identity of its thread; of a coroutine that of the loop's thread.
        task: of a coroutine; None: it is no coroutine.
        stage: how far it was told of (see `hanging.stage`).
        cancelled: it was asked to stop because it hangs.
    """

    messages: Sequence[ReceivedMessage]
    context: ConsumeContext
    since: float
    thread: int
    task: asyncio.Task[Any] | None = None
    stage: int = 0
    cancelled: bool = False

    @property
    def seconds(self) -> float:
        """For how long it has been running."""
        return monotonic() - self.since


class RunningCalls:
    """Thread-safe."""

    def __init__(self) -> None:
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
        call = RunningCall(messages, context, monotonic(), threading.get_ident(), task)
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
        raise error
    return failed(messages, context, error)
