"""A timer thread: functions that run once, after a delay.

Retries, resumptions and request time-outs wait here, so that no thread sleeps for one of them.
What repeats belongs to `periodic.Periodic`.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable

from orderly.errors import LifecycleError
from orderly.log import get_logger

_log = get_logger("orderly.remoting")


class _Timer:
    """One planned call; `work` is None once it ran or was cancelled."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self.work = None


class Schedule:
    """Runs functions later, one after another, on one daemon thread.

    Thread-safe. The functions must not block: whatever may connect, or wait for an answer, goes
    to an executor. Functions due at the same time run in the order in which they were given.
    Whatever one raises is logged and the thread goes on. The thread starts with the first `after`.

    Args:
        name: the thread is called "orderly-<name>".
    """

    def __init__(self, name: str = "schedule") -> None:
        self.name = name
        self._changed = threading.Condition()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def after(self, delay: float, work: Callable[[], object]) -> Callable[[], None]:
        """Run `work()` in `delay` seconds (0 or less: as soon as the thread is free).

        Returns:
            A function that cancels it; without effect once `work` has begun.

        Raises:
            LifecycleError: after `close`; `work` would never run.
        """
        timer = _Timer(work)
        with self._changed:
            if self._closed:
                raise LifecycleError(f"{self.name} is closed; nothing can be planned on it")
            entry = (time.monotonic() + delay, next(self._numbers), timer)
            heapq.heappush(self._timers, entry)
            if self._thread is None:
                self._start()
            elif self._timers[0] is entry:
                self._changed.notify()
        return timer.cancel

    def close(self, timeout: float | None = 5.0) -> None:
        """Forget what is planned and end the thread. Idempotent.

        Args:
            timeout: seconds to wait for a function that is running.
        """
        with self._changed:
            self._closed = True
            self._timers.clear()
            thread = self._thread
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name=f"orderly-{self.name}", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while (timer := self._next_due()) is not None:
            work, timer.work = timer.work, None
            if work is not None:
                self._run(work)

    def _next_due(self) -> _Timer | None:
        """Wait until a timer is due and take it; None after `close`."""
        with self._changed:
            while not self._closed:
                wait = self._timers[0][0] - time.monotonic() if self._timers else math.inf
                if wait <= 0:
                    return heapq.heappop(self._timers)[2]
                self._changed.wait(min(wait, threading.TIMEOUT_MAX))
        return None

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - one's failure, or sys.exit, is its own
            _log.error(
                "scheduled_work.failed", schedule=self.name, error=repr(error), exc_info=True
            )
