"""The clock of leases, and the clock of accusations.

The clock of leases never goes back, and counts the time in which the machine slept: a lease runs
out at the broker meanwhile. Linux has CLOCK_BOOTTIME for that. On macOS CLOCK_MONOTONIC goes on in
sleep. The other one stands while this process stands still (`awake` says what it is for).
"""

from __future__ import annotations

import threading
import time

from orderly.awake import LATE, TICK, AwakeTime

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now() -> float:
    """Seconds since some moment, which is the same for all processes of a machine."""
    return time.clock_gettime(_CLOCK)


class AwakeClock:
    """The time in which this process ran, until `close`. Thread-safe.

    A thread looks at the clock regularly; it begins when the clock is first asked.
    """

    def __init__(self) -> None:
        self._time = AwakeTime(now())
        # Together, so that a reader that stood still between two steps is not misled: the seconds
        # that do not count, and until when that is so without another look.
        self._seen = 0.0, float("-inf")
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def now(self) -> float:
        """Seconds of awake time. It can go back by a second, after a standstill."""
        lost, sure_until = self._seen
        moment = now()
        return moment - lost if moment < sure_until else self._look()

    def since(self, moment: float) -> float:
        """Seconds of awake time since a moment of the clock of leases."""
        awake = self.now()
        with self._lock:
            return max(0.0, awake - self._time.at(moment))

    def close(self) -> None:
        """End the thread; from then on every second counts. Idempotent."""
        with self._lock:
            self._closed.set()
            self._seen = self._time.lost, float("inf")
            thread = self._thread
        if thread is not None:
            thread.join()  # it waits for nothing but that

    def _look(self) -> float:
        with self._lock:
            moment = now()
            if self._thread is None:
                self._start(moment)
            elif not self._closed.is_set():
                self._time.look(moment)
                self._seen = self._time.lost, moment + TICK + LATE
            return moment - self._time.lost

    def _start(self, moment: float) -> None:
        thread = threading.Thread(target=self._run, name="orderly-awake", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads: until it has, every second counts
            return
        self._thread, self._time = thread, AwakeTime(moment)

    def _run(self) -> None:
        while not self._closed.wait(TICK):
            self._look()
