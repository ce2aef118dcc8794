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
    """The time in which this process ran, until `close`. Thread-safe, without a lock.

    A thread looks at the clock regularly; it begins when the clock is first asked. Whoever asks
    before it has looked after a standstill sees what it is going to see.
    """

    def __init__(self) -> None:
        self._time = AwakeTime(now())  # replaced by the thread alone
        self._looks = False  # whether the thread does
        self._begins = [self._run]  # who takes it out begins the thread
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def now(self) -> float:
        """Seconds of awake time. It can go back by a second, after a standstill."""
        moment = now()
        return moment - self._at(moment).lost

    def since(self, moment: float) -> float:
        """Seconds of awake time since a moment of the clock of leases."""
        at = now()
        time = self._at(at)
        return max(0.0, at - time.lost - time.at(moment))

    def close(self) -> None:
        """End the thread; from then on every second counts. Idempotent."""
        self._begins.clear()
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def _at(self, moment: float) -> AwakeTime:
        if self._looks:
            time = self._time
            return time if moment - time.looked_at <= TICK + LATE else time.looked(moment)
        if self._begins:
            self._begin(moment)
        return self._time

    def _begin(self, moment: float) -> None:
        try:
            run = self._begins.pop()
        except IndexError:  # another thread does it
            return
        self._time, self._looks = AwakeTime(moment), True
        thread = threading.Thread(target=run, name="orderly-awake", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads: until it has, every second counts
            self._looks = False
            self._begins.append(run)
            return
        self._thread = thread

    def _run(self) -> None:
        while not self._closed.wait(TICK):
            self._time = self._time.looked(now())
        self._time, self._looks = self._time.looked(now()), False
