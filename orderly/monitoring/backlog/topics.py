"""The topics of a cluster from scan to scan: how their queues grow, the same for all groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from orderly.model import MessageQueue
from orderly.monitoring.backlog.absence import forget_absent
from orderly.monitoring.backlog.curve import Curve
from orderly.monitoring.backlog.pace import Marks
from orderly.monitoring.backlog.pair import Topic
from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.reading import NOT_READ, BrokerReading, Scan, TopicReading


class TopicMemory:
    """What is remembered of one topic. Not thread-safe."""

    def __init__(self, at: float, reading: TopicReading) -> None:
        self.absent = 0
        self.reading = reading
        self._curves = {queue: Curve() for queue in reading.queues}
        self._marks = Marks(at, reading.maximum)

    def view(
        self,
        at: float,
        reading: TopicReading,
        brokers: Mapping[str, BrokerReading],
        window: float,
    ) -> Topic:
        """The topic in a scan."""
        known = self.reading
        if reading.queues != known.queues:
            self._curves = {queue: self._curves.get(queue, Curve()) for queue in reading.queues}
            self._marks = Marks(at, reading.maximum)
        same = (
            reading.maximum == known.maximum
            and reading.minimum == known.minimum
            and reading.queues == known.queues
            and reading.unread == known.unread
        )
        self.reading = reading
        curves = list(self._curves.values())
        for curve, end in zip(curves, reading.maximum, strict=True):
            if end >= 0:
                curve.note(at, end)
        rates, elapsed = self._marks.rates(at, reading.maximum, window)
        return Topic(
            reading=reading,
            curves=curves,
            in_rates=rates,
            elapsed=elapsed,
            retention=[_retention(brokers.get(queue.broker_name)) for queue in reading.queues],
            skew=queue_skew(reading.queues, rates),
            same=same,
            whole=min((*reading.minimum, *reading.maximum), default=0) >= 0,
        )


def _retention(broker: BrokerReading | None) -> float | None:
    return None if broker is None else broker.retention


class Topics:
    """All topics that a group has offsets of. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, TopicMemory] = {}

    def views(self, scan: Scan, wanted: Collection[str], window: float) -> dict[str, Topic]:
        """Each wanted topic in a scan.

        One that the scan does not show although a group has offsets of it is as it was, and
        nothing of it could be read.
        """
        found = {}
        for name in wanted:
            memory = self._known.get(name)
            reading = scan.topics.get(name)
            if reading is None:
                if memory is None:
                    continue
                reading = unreadable(memory.reading)
            if memory is None:
                memory = self._known[name] = TopicMemory(scan.at, reading)
            memory.absent = 0
            found[name] = memory.view(scan.at, reading, scan.brokers, window)
        forget_absent(self._known, wanted)
        return found

    def queues(self, name: str) -> tuple[MessageQueue, ...]:
        """A topic's queues as last seen."""
        memory = self._known.get(name)
        return () if memory is None else memory.reading.queues


def unreadable(reading: TopicReading) -> TopicReading:
    """A topic of which nothing could be read."""
    nothing = (NOT_READ,) * len(reading.queues)
    return replace(reading, minimum=nothing, maximum=nothing)
