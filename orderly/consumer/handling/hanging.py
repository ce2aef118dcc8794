"""Handler calls that run longer than `handler_timeout`: told of, and stopped where possible.

A worker process is killed and a coroutine cancelled. A thread cannot be stopped: only the end of
the whole process frees its queue.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from orderly.consumer.handling.running_calls import RunningCall, RunningCalls
from orderly.consumer.session import Session
from orderly.log import key_text, where
from orderly.ordering.context import ConsumeContext

EXIT_CODE = 70  # EX_SOFTWARE of sysexits.h
_LAST_WORDS = 5.0  # seconds the log may take for them


def stage(seconds: float, timeout: float) -> int:
    """How long a call has run: 0 within `timeout`, then 1, and one more at each doubling."""
    return 0 if seconds < timeout else 1 + int(math.log2(seconds / timeout))


def ends_process(on_hang: str, *, stoppable: bool, again: bool) -> bool:
    """Whether a call that hangs ends the whole process.

    Args:
        on_hang: of the configuration.
        stoppable: it was asked to stop, and is given as long again to heed that.
        again: it was told of before.
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
            told, call.stage = call.stage, stage(seconds, timeout)
            if call.stage > told:
                self._act(call, seconds, again=told > 0)

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
        told: dict[str, object] = {"seconds": round(seconds, 1)}
        if self._kill is None:  # else it runs in another process: here one only waits for it
            told["stack"] = stack
        self._session.log.error("handler.hung", **at, **told)
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
        """End the process, whatever its threads do."""
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
