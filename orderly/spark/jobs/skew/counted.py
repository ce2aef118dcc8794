"""Exact counts of a topic's messages, in a size that one machine holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orderly.model import MessageQueue
from orderly.monitoring.skew.keys import HotKey
from orderly.selectors import Layout


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """Messages of a queue; `keyed` of them have a key, and `lost` were gone before."""

    messages: int
    keyed: int
    lost: int


@dataclass(frozen=True, slots=True)
class Counted:
    """What Spark counted.

    Attributes:
        topic, layout: as of now.
        queues: by queue, in counting order; queues that are no longer written to come last.
        keys, splits: how many keys there are, and how many of them lie in several queues.
        head: the most frequent keys, the largest first.
        sizes: by number of messages, how many keys have so many.
        tried: by selector and number of queues, messages by place, and how many of all would move.
    """

    topic: str
    layout: Layout
    queues: Mapping[MessageQueue, QueueLoad]
    keys: int
    splits: int
    head: Sequence[HotKey]
    sizes: Mapping[int, int]
    tried: Mapping[tuple[str, int], tuple[Sequence[int], int]]

    @property
    def messages(self) -> int:
        """All that were read."""
        return sum(load.messages for load in self.queues.values())

    @property
    def keyed(self) -> int:
        """Of them, those with a key; shares are shares of these."""
        return sum(load.keyed for load in self.queues.values())

    @property
    def lost(self) -> int:
        """Messages that were gone before they could be read."""
        return sum(load.lost for load in self.queues.values())

    @property
    def top_share(self) -> float:
        """Of the most frequent key."""
        return self.head[0].least / self.keyed if self.head else 0.0

    @property
    def present(self) -> int:
        """How many queues producers write to."""
        return sum(count for _, count in self.layout.brokers)
