"""Counts of many threads without a lock: each has its own, and who asks adds them up."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from orderly.bench.histogram import Histogram


@dataclass(slots=True)
class Tally:
    """What one thread has done.

    Attributes:
        messages, bytes: sent and acknowledged, or handled.
        failed: messages, by the kind of error.
        latency: each message's, in seconds: of sends until acknowledged, of consuming since sent.
        calls: of the handler.
        last_ns: when the last one began, in nanoseconds since the epoch.
        looked, looked_cpu: calls whose CPU time was taken, and their CPU seconds.
    """

    messages: int = 0
    bytes: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)
    calls: int = 0
    last_ns: int = 0
    looked: int = 0
    looked_cpu: float = 0.0


class Tallies:
    """The tallies of all threads. Thread-safe; a sum may lag by what is under way."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[Tally] = []

    def mine(self) -> Tally:
        """The calling thread's, which only it may change."""
        try:
            return self._own.tally  # type: ignore[no-any-return]
        except AttributeError:
            self._own.tally = tally = Tally()
            self._all.append(tally)
            return tally

    def all(self) -> list[Tally]:
        """Those of all threads so far."""
        return list(self._all)

    def messages(self) -> int:
        """Messages of all threads."""
        return sum(tally.messages for tally in self.all())

    def bytes(self) -> int:
        """Bytes of all threads."""
        return sum(tally.bytes for tally in self.all())

    def failed(self) -> Counter[str]:
        """Failed messages of all threads, by the kind of error."""
        return sum((tally.failed for tally in self.all()), Counter[str]())
