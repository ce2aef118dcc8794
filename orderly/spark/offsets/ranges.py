"""Ranges of queue offsets: what is read of which queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from orderly.model import MessageQueue


@dataclass(frozen=True, slots=True, order=True)
class QueueRange:
    """Messages of one queue from `start` up to `end`, which is not among them.

    Attributes:
        queue: topic, broker name, queue id.
        start, end: queue offsets; equal: nothing.
    """

    queue: MessageQueue
    start: int
    end: int

    @property
    def messages(self) -> int:
        """How many offsets it covers."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} [{self.start}, {self.end})"


def split(ranges: Iterable[QueueRange], at_least: int = 1) -> list[QueueRange]:
    """Cut ranges so that many tasks can read them side by side; empty ones are left out.

    A queue gets parts in proportion to its messages, all of its parts alike but for one message.

    Args:
        ranges: of different queues.
        at_least: how many parts to make; fewer if there are fewer messages.

    Returns:
        The parts, in the order of the ranges; at most one a queue more than `at_least`.
    """
    filled = [each for each in ranges if each.messages > 0]
    total = sum(each.messages for each in filled)
    wanted = min(at_least, total)
    return [part for each in filled for part in _cut(each, -(-each.messages * wanted // total))]


def _cut(whole: QueueRange, parts: int) -> list[QueueRange]:
    cuts = [whole.start + whole.messages * index // parts for index in range(parts + 1)]
    return [QueueRange(whole.queue, low, high) for low, high in pairwise(cuts)]
