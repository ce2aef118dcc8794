"""Where keys would go with another number of queues: the selectors themselves are asked. Pure.

Only selectors that look at the key: SingleQueue puts everything into one queue whatever the
number, RoundRobin and RandomQueue spread evenly and keep no order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, final

from orderly.model import Message, MessageQueue
from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.selectors import KEYED, Layout, choose, queues_of

_USUAL = ("hash_mod", "numeric_mod")
_ELSEWHERE = 0.05  # share of the messages that a selector at work does not explain


class Tried(Protocol):
    """A selector that was tried: its name, and the share of the messages that it would move."""

    @property
    def selector(self) -> str:
        """Its name."""

    @property
    def moved(self) -> float | None:
        """Share of the messages, 0 to 1."""


T = TypeVar("T", bound=Tried)


def at_work(now: Iterable[T]) -> T | None:
    """The selector that explains best where messages lie; None: there is none.

    One that is not usual here must explain nearly all: of so many one fits best by chance.

    Args:
        now: all with the present queues.
    """
    rank = {name: place for place, name in enumerate(KEYED)}
    likely = [it for it in now if it.selector in _USUAL or (it.moved or 0.0) <= _ELSEWHERE]
    return min(likely, key=lambda it: (it.moved or 0.0, rank[it.selector]), default=None)


def worth_telling(tried: Iterable[T], now: Tried | None) -> list[T]:
    """Those of the usual selectors, and of the one at work: the others bring nothing new."""
    names = (*_USUAL, now.selector if now is not None else "")
    return [each for each in tried if each.selector in names]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a selector would make of the sampled keys with some number of queues.

    Attributes:
        selector: its name.
        queues: how many there would be.
        skew: of the messages over them; None: there was no message with a key.
        moved: share of the messages that would lie in another queue than they do, 0 to 1.
        place: the queue of a key.
    """

    selector: str
    queues: int
    skew: QueueSkew | None
    moved: float
    place: Callable[[str], MessageQueue]


@final
class Trial:
    """One selector with one number of queues, tried on message after message. Not thread-safe.

    Args:
        selector: its name in KEYED.
        queues: in counting order; at least one.
    """

    def __init__(self, selector: str, queues: Sequence[MessageQueue]) -> None:
        self._rule = KEYED[selector]
        self._queues = queues
        self._loads = dict.fromkeys(queues, 0)
        self._moved = 0
        self._takes_all = True

    def add(self, key: str, queue: MessageQueue) -> None:
        """Try it on a message of `queue`."""
        if self._rule.given(key) is None:
            self._takes_all = False
        if self._takes_all:
            chosen = self.place(key)
            self._loads[chosen] += 1
            self._moved += chosen != queue

    def place(self, key: str) -> MessageQueue:
        """The queue of a key that the selector takes."""
        message = Message(self._queues[0].topic, b"")
        return choose(self._rule.selector, self._queues, message, self._rule.given(key))

    def outcome(self) -> Outcome | None:
        """What came of it; None: the selector does not take all of the keys."""
        if not self._takes_all:
            return None
        tried = sum(self._loads.values())
        return Outcome(
            self._rule.name,
            len(self._queues),
            queue_skew(self._queues, list(self._loads.values())),
            self._moved / tried if tried else 0.0,
            self.place,
        )


def queues_if(layout: Layout, topic: str, number: int) -> tuple[MessageQueue, ...]:
    """The queues of the topic if there were `number`, spread evenly over the same brokers."""
    if number == sum(count for _, count in layout.brokers):
        return queues_of(layout, topic)
    each, more = divmod(number, len(layout.brokers))
    counts = [(name, each + (place < more)) for place, (name, _) in enumerate(layout.brokers)]
    return queues_of(Layout(tuple((name, count) for name, count in counts if count)), topic)
