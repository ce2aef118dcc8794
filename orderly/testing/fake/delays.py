"""Messages that are to appear later: the levels of property DELAY (ScheduleMessageService)."""

from __future__ import annotations

import heapq
import itertools

from orderly.testing.fake.store import NewMessage

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
LEVELS = (
    1,
    5,
    10,
    30,
    60,
    120,
    180,
    240,
    300,
    360,
    420,
    480,
    540,
    600,
    1200,
    1800,
    3600,
    7200,
)  # fmt: skip  seconds of level 1, 2, …


class Delays:
    """What waits for its time; it outlives a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, NewMessage]] = []
        self._numbers = itertools.count()

    def add(self, message: NewMessage, due: float) -> None:
        """Let a message wait until `due`."""
        heapq.heappush(self._heap, (due, next(self._numbers), message))

    def take(self, now: float) -> list[NewMessage]:
        """Take out what is due, the earliest first."""
        ready = []
        while self._heap and self._heap[0][0] <= now:
            ready.append(heapq.heappop(self._heap)[2])
        return ready

    def next_due(self) -> float | None:
        """When the next message is due."""
        return self._heap[0][0] if self._heap else None


def level_of(text: str | None) -> int:
    """The level a DELAY property asks for; 0: none."""
    try:
        level = int(text or "0")
    except ValueError:
        return 0
    return min(max(level, 0), len(LEVELS))
