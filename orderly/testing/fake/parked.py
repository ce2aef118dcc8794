"""Pulls that wait for a message (PullRequestHoldService)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass

from orderly.testing.fake.exchange import Call

SCAN = 5.0  # seconds between two looks at what has expired, on full multiples


@dataclass(frozen=True, slots=True)
class Parked:
    """A pull that found nothing, and until when it may wait."""

    call: Call
    offset: int
    codes: Collection[int] | None
    deadline: float


class ParkedPulls:
    """Waiting pulls by topic and queue id. Not thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], list[Parked]] = defaultdict(list)

    def add(self, topic: str, queue_id: int, parked: Parked) -> None:
        """Let a pull wait."""
        self._waiting[topic, queue_id].append(parked)

    def wake(self, topic: str, queue_id: int, tag_code: int) -> list[Call]:
        """Take out the pulls of a queue that a new message with this tag is for."""
        waiting = self._waiting.get((topic, queue_id))
        if not waiting:
            return []
        woken = [p.call for p in waiting if p.codes is None or tag_code in p.codes]
        waiting[:] = [p for p in waiting if not (p.codes is None or tag_code in p.codes)]
        return woken

    def due(self, now: float, ends: dict[tuple[str, int], int]) -> list[Call]:
        """Take out the pulls that expired, or whose queue has grown to more than `ends` said."""
        taken = []
        for key, waiting in self._waiting.items():
            over = [p for p in waiting if now >= p.deadline or ends[key] > p.offset]
            taken += [parked.call for parked in over]
            waiting[:] = [parked for parked in waiting if parked not in over]
        return taken

    def queues(self) -> list[tuple[str, int]]:
        """Topic and queue id of each queue somebody waits for."""
        return [key for key, waiting in self._waiting.items() if waiting]

    def drop(self, connection_id: int) -> None:
        """Forget the pulls of a connection that ended."""
        for waiting in self._waiting.values():
            waiting[:] = [p for p in waiting if p.call.connection_id != connection_id]


def next_scan(now: float) -> float:
    """The first look after `now`."""
    return (math.floor(now / SCAN) + 1) * SCAN
