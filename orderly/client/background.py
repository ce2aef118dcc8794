"""Background work: a thread that repeats one function, a timer, one flight for many threads.

The rebalancer, the lock renewal, the offset saver, the heartbeat and the route refresh each are
one `Periodic`. What has to happen once, later, belongs to the `Schedule`.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from orderly.errors import LifecycleError
from orderly.interruptions import let_go
from orderly.log import get_logger

_log = get_logger("orderly.remoting")


class Periodic:
    """Runs `work()` every `interval` seconds, and at once after `wake()`.

    Thread-safe. A run begins `interval` seconds after the previous one began, or directly after
    it when it took longer; two runs never overlap. Errors of `work` are logged and the loop
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
        try:
            with self._changed:
                self._due = min(self._due, time.monotonic() + seconds)
                self._changed.notify()
        except BaseException:  # an interruption of the caller's
            _look_again(self._changed)
            raise

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
        """Wait for the next run and plan the one after it; False: there are no more runs."""
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


def _look_again(changed: threading.Condition) -> None:
    """Make whole what an interruption cut off while it held `changed`: its thread looks again."""
    let_go(changed)
    with changed:
        changed.notify()


def report_defect(work: str, error: BaseException) -> None:
    """Log what a background work raised; call it where that is caught. The work goes on."""
    _log.error("periodic_work.failed", work=work, error=repr(error), exc_info=True)


# --- a timer thread: functions that run once, after a delay ---------------------------------------
# Retries, resumptions and request time-outs wait here, so that no thread sleeps for one of them.


class _Timer:
    """One planned call; `work` is None once it ran or was cancelled."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work

    def cancel(self) -> None:
        self.work = None


class Schedule:
    """Runs functions later, one after another, on one daemon thread.

    Thread-safe. The functions must not block: work that can connect, or wait for an answer, goes
    to an executor. Functions due at the same time run in the order in which they were given.
    Errors are logged and the thread goes on. The thread starts with the first `after`.

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
        try:
            with self._changed:
                self._plan(time.monotonic() + delay, timer)
        except BaseException:  # an interruption of the caller's, or it is closed
            _look_again(self._changed)
            raise
        return timer.cancel

    def _plan(self, due: float, timer: _Timer) -> None:
        if self._closed:
            raise LifecycleError(f"{self.name} is closed; it takes no more work")
        entry = (due, next(self._numbers), timer)
        heapq.heappush(self._timers, entry)
        if self._thread is None:
            self._start()
        elif self._timers[0] is entry:
            self._changed.notify()

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
        thread = threading.Thread(target=self._loop, name=f"orderly-{self.name}", daemon=True)
        thread.start()
        self._thread = thread

    def _loop(self) -> None:
        with self._changed:
            if self._thread not in (None, threading.current_thread()):
                return  # whoever started this one was interrupted, and another was started
            self._thread = threading.current_thread()
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


# --- single flight: of many threads that want the same thing at once, one gets it for all ---------
# A broker that dies makes every sender and every puller ask for a connection and a fresh route at
# once; without this each of them would wait for its own failure.


T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs at most one piece of work per key at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, Future[T]] = {}

    def do(self, key: str, work: Callable[[], T]) -> T:
        """Return `work()`, or the result of the same work another thread is doing for `key`.

        Its exception is raised in all threads that waited. If the working thread is interrupted
        (KeyboardInterrupt), one of the others does the work.
        """
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is None:
                    mine = self._flights[key] = Future()
                    break
            try:
                return flight.result()
            except CancelledError:
                continue
        return self._fly(key, mine, work)

    def _fly(self, key: str, flight: Future[T], work: Callable[[], T]) -> T:
        try:
            result = work()
        except Exception as error:
            self._land(key)
            flight.set_exception(error)
            raise
        except BaseException:
            self._land(key)
            flight.cancel()
            raise
        self._land(key)
        flight.set_result(result)
        return result

    def _land(self, key: str) -> None:
        with self._lock:
            del self._flights[key]
