"""Blocking steps of an asyncio program's consumer, on threads of their own.

The event loop's default executor has few threads, and handlers may use them: a close that waits
for its handlers must not take the last one.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(function: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run `function` on a new thread; the result is to be awaited on the running loop.

    It runs to its end, also when nobody awaits it any more.

    Args:
        function: may block.
        name: of the thread.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever awaits
            outcome.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(outcome)
