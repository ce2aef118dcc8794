"""What earlier scans learned and a later one does not ask again, or cannot.

A broker that is down is gone from the name server's list within seconds; only who has seen it
before knows that a part of the cluster is missing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import final

from orderly.monitoring.collecting.parts import Part

# Seconds after which a broker nobody sees any more counts as removed: what breaks in the evening
# must not look well in the morning.
FORGET_AFTER = 86_400.0
_RETENTION_FOR = 3600.0  # seconds
_MINIMA_FOR = 600.0  # seconds; minima move when whole files are deleted, once in hours


@dataclass(slots=True)
class _Known:
    part: Part
    at: float


@final
class Memory:
    """Of one collector. Not thread-safe; times are any steady clock, seconds."""

    def __init__(self) -> None:
        self._brokers: dict[str, _Known] = {}
        self._retention: dict[str, tuple[float, float | None]] = {}
        self._minima: dict[tuple[str, str], tuple[float, Mapping[int, int]]] = {}

    # --- brokers -------------------------------------------------------------------------------

    def learn(self, part: Part, now: float) -> None:
        """Keep what a broker has just told; not its offsets."""
        self._brokers[part.broker] = _Known(replace(part, committed=None), now)

    def recall(self, broker: str) -> Part:
        """What is remembered of a broker: its offsets are not read."""
        known = self._brokers.get(broker)
        return known.part if known else Part(broker)

    def missed(self, present: Collection[str], now: float) -> dict[str, float]:
        """Brokers seen before that are not `present`, and seconds since they last answered."""
        for name in [n for n, known in self._brokers.items() if now - known.at > FORGET_AFTER]:
            del self._brokers[name]
        return {n: now - known.at for n, known in self._brokers.items() if n not in present}

    # --- what changes rarely -------------------------------------------------------------------

    def retention_due(self, broker: str, now: float) -> bool:
        """Whether a broker has to be asked for how long it keeps messages."""
        at, _ = self._retention.get(broker, (None, None))
        return at is None or now - at > _RETENTION_FOR

    def keep_retention(self, broker: str, seconds: float | None, now: float) -> None:
        """Note for how long a broker keeps messages; None: it does not tell."""
        self._retention[broker] = (now, seconds)

    def retention(self, broker: str) -> float | None:
        """For how long a broker keeps messages; None: not known."""
        return self._retention.get(broker, (0.0, None))[1]

    def minima(self, topic: str, broker: str, now: float) -> Mapping[int, int] | None:
        """A topic's minima by queue id on a broker; None: not known, or too old."""
        at, minima = self._minima.get((topic, broker), (now, None))
        return minima if now - at <= _MINIMA_FOR else None

    def keep_minima(self, topic: str, broker: str, minima: Mapping[int, int], now: float) -> None:
        """Note a topic's minima."""
        self._minima[topic, broker] = (now, minima)

    def forget_topics(self, present: Collection[str]) -> None:
        """Drop minima of topics that are gone."""
        for key in [key for key in self._minima if key[0] not in present]:
            del self._minima[key]
