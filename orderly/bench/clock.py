"""CPU seconds by what they were spent on: exact, at the price of one clock reading a request.

Each thread has a phase; `enter` books what the thread has computed since to the phase before. A
sampler of stacks would need no calls, but its thread only gets the interpreter lock where another
one lets go of it, which is at its socket or its lock: of a thread that sends one message after
another it sees nothing but waiting.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from orderly.bench.figures import Where


class _Thread(threading.local):
    """What one thread does now, and since when on its own CPU clock."""

    phase: Where | None = None
    since = 0.0


class PhaseClock:
    """Books CPU time to phases. Thread-safe."""

    def __init__(self) -> None:
        self._now = _Thread()
        self._lock = threading.Lock()
        self._sums: defaultdict[Where, float] = defaultdict(float)

    def enter(self, phase: Where | None) -> Where | None:
        """Begin another phase on this thread (None: one that is not booked); return the last."""
        now, mine = time.thread_time(), self._now
        before = mine.phase
        if before is not None:
            with self._lock:
                self._sums[before] += now - mine.since
        mine.phase, mine.since = phase, now
        return before

    @contextmanager
    def during(self, phase: Where) -> Iterator[None]:
        """Be in a phase, then in the one before again."""
        before = self.enter(phase)
        try:
            yield
        finally:
            self.enter(before)

    def seconds(self) -> dict[Where, float]:
        """CPU seconds by phase, up to each thread's last change."""
        with self._lock:
            return dict(self._sums)
