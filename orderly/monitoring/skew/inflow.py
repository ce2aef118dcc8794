"""How many messages came into each queue of a topic, and in which time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orderly.model import MessageQueue
from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.snapshot import QueueSkew

ENOUGH = 50  # messages a queue: with fewer, chance alone makes the busiest twice the mean


class Basis(StrEnum):
    """Which messages are counted."""

    MEASURED = "measured"  # between two looks
    SINCE = "since"  # stored since a given time
    STORED = "stored"  # all that the broker still has


@dataclass(frozen=True, slots=True)
class Span:
    """What a queue holds: its oldest offset, and the one the next message gets."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Inflow:
    """Messages by queue.

    Attributes:
        basis: which.
        seconds: in how many; None: not known.
        messages: by queue, in counting order; None: not known.
    """

    basis: Basis
    seconds: float | None
    messages: Mapping[MessageQueue, int | None]

    @property
    def total(self) -> int | None:
        """Of all queues; None: not known of one."""
        known = [count for count in self.messages.values() if count is not None]
        return sum(known) if len(known) == len(self.messages) else None

    @property
    def skew(self) -> QueueSkew | None:
        """Its figures; None: nothing came, or a queue is not known."""
        return queue_skew(tuple(self.messages), tuple(self.messages.values()))


def measured(
    queues: Sequence[MessageQueue],
    first: Mapping[MessageQueue, Span],
    second: Mapping[MessageQueue, Span],
    seconds: float,
) -> Inflow:
    """What came between two looks; what is stored, if that is too little to judge by.

    Args:
        queues: of the topic, in counting order.
        first: what was seen; a queue that could not be read is missing.
        second: the same, later.
        seconds: between the two.
    """
    came = {
        queue: max(0, second[queue].maximum - first[queue].maximum)  # a new log may be shorter
        if queue in first and queue in second
        else None
        for queue in queues
    }
    inflow = Inflow(Basis.MEASURED, seconds, came)
    known = sum(count for count in came.values() if count is not None)
    return inflow if known >= ENOUGH * len(queues) else stored(queues, second)


def stored(queues: Sequence[MessageQueue], spans: Mapping[MessageQueue, Span]) -> Inflow:
    """All that the queues hold."""
    held = {queue: spans[queue].maximum - spans[queue].minimum for queue in spans}
    return Inflow(Basis.STORED, None, {queue: held.get(queue) for queue in queues})
