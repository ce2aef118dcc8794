"""Which keys were seen in which queues. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from orderly.model import MessageQueue


@dataclass(frozen=True, slots=True)
class Sighting:
    """A key in a queue.

    Attributes:
        key: as it is stored.
        queue: where.
        messages: how many of it were seen there.
        first, last: when the earliest and the latest of them were stored, seconds since the epoch.
    """

    key: str
    queue: MessageQueue
    messages: int
    first: float
    last: float


@final
class Sightings:
    """Collects them. Holds every key of the sample, so the sample is the bound. Not thread-safe."""

    def __init__(self) -> None:
        self.messages = 0
        self.keyless = 0
        self._found: dict[str, dict[MessageQueue, Sighting]] = {}

    def add(self, key: str | None, queue: MessageQueue, stored: float) -> None:
        """Count a message.

        Args:
            key: its sharding key; None: it has none.
            queue: where it lies.
            stored: when, in seconds since the epoch.
        """
        self.messages += 1
        if key is None:
            self.keyless += 1
            return
        queues = self._found.setdefault(key, {})
        seen = queues.get(queue) or Sighting(key, queue, 0, stored, stored)
        queues[queue] = Sighting(
            key, queue, seen.messages + 1, min(seen.first, stored), max(seen.last, stored)
        )

    @property
    def keys(self) -> int:
        """How many different ones."""
        return len(self._found)

    def __iter__(self) -> Iterator[Sighting]:
        """All of them, a key's together."""
        return (seen for queues in self._found.values() for seen in queues.values())

    def split(self) -> list[tuple[Sighting, ...]]:
        """Keys that were seen in several queues, the most frequent first; each as it came by."""
        several = [tuple(queues.values()) for queues in self._found.values() if len(queues) > 1]
        several.sort(key=lambda key: (-sum(seen.messages for seen in key), key[0].key))
        return [tuple(sorted(key, key=lambda seen: (seen.first, seen.queue))) for key in several]
