"""A daemon thread that runs one function again and again.

The rebalancer, the lock renewal, the offset saver, the heartbeat and the route refresh each are
one `Periodic`. What has to happen once, later, belongs to `schedule.Schedule`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from orderly.errors import LifecycleError
from orderly.log import get_logger

_log = get_logger("orderly.remoting")


class Periodic:
    """Runs `work()` every `interval` seconds, and at once after `wake()`.

    Thread-safe. A run begins `interval` seconds after the previous one began, or directly after
    it when it took longer; two runs never overlap. Whatever `work` raises is logged and the loop
    goes on.

    Args:
        name: the thread is called "orderly-<name>".
        interval: seconds between the beginnings of two runs.
        work: called without arguments on the thread.
        first_after: seconds from `start` to the first run.
    """

    def __init__(
        self,
        name: str,
        interval: float,
        work: Callable[[], object],
        *,
        first_after: float = 0.0,
    ) -> None:
        self.name = name
        self._interval = interval
        self._work = work
        self._first_after = first_after
        self._changed = threading.Condition()
        self._due = math.inf  # when the next run begins, on time.monotonic
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread.

        Raises:
            LifecycleError: started before, or stopped.
        """
        with self._changed:
            if self._thread is not None or self._stopping:
                raise LifecycleError(f"{self.name} was started before; make a new one")
            self._due = min(self._due, time.monotonic() + self._first_after)
            self._thread = threading.Thread(
                target=self._loop, name=f"orderly-{self.name}", daemon=True
            )
            self._thread.start()

    def wake(self) -> None:
        """Run `work` as soon as possible.

        Several calls before the run begins make one run. A call while `work` runs makes one more
        run after it, so that nothing that changed meanwhile is overlooked.
        """
        self.wake_within(0.0)

    def wake_within(self, seconds: float) -> None:
        """Run `work` in `seconds` at the latest; an earlier run, planned or asked for, will do."""
        with self._changed:
            self._due = min(self._due, time.monotonic() + seconds)
            self._changed.notify()

    @property
    def inside(self) -> bool:
        """True on the thread that runs `work`."""
        return threading.current_thread() is self._thread

    def stop(self, timeout: float | None = None) -> bool:
        """End the thread after the run in progress. Idempotent.

        Called by `work` itself it only asks for the end: a thread cannot wait for itself.

        Args:
            timeout: seconds to wait for the run in progress; None waits for as long as it takes.

        Returns:
            Whether the thread has ended (True if it was never started).
        """
        with self._changed:
            self._stopping = True
            thread = self._thread
            self._changed.notify()
        if thread is None:
            return True
        if not self.inside:
            thread.join(timeout)
        return not thread.is_alive()

    def _loop(self) -> None:
        while self._wait_until_due():
            self._run()

    def _wait_until_due(self) -> bool:
        """Wait for the next run and plan the one after it; False: there is none any more."""
        with self._changed:
            while not self._stopping and (left := self._due - time.monotonic()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            self._due = time.monotonic() + self._interval
            return not self._stopping

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - not even sys.exit ends a background loop
            report_defect(self.name, error)


def report_defect(work: str, error: BaseException) -> None:
    """Log what a background work raised; call it where that is caught. The work goes on."""
    _log.error("periodic_work.failed", work=work, error=repr(error), exc_info=True)
