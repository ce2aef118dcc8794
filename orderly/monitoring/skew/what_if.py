"""Where keys would go with another number of queues: the selectors themselves are asked. Pure.

Only selectors that look at the key: SingleQueue puts everything into one queue whatever the
number, RoundRobin and RandomQueue spread evenly and keep no order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from orderly.model import Message, MessageQueue
from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.selectors import Layout, Selector, choose, hash_mod, numeric_mod, queues_of

_INT_DIGITS = 19
_LONG_MAX = 2**63 - 1


def _number(key: str) -> int | None:
    """The number that a key's text stands for, written as a producer writes it."""
    digits = key.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > _INT_DIGITS:
        return None
    number = int(key)
    return number if str(number) == key and -_LONG_MAX - 1 <= number <= _LONG_MAX else None


SELECTORS: dict[str, tuple[Selector, Callable[[str], object]]] = {
    "hash_mod": (hash_mod, str),
    "numeric_mod": (numeric_mod, _number),
}
"""By name: the selector, and what it is given for a stored key (None: it takes no such key).

hash_mod is also Java's SelectMessageQueueByHash.
"""


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
        selector: its name in SELECTORS.
        queues: in counting order; at least one.
    """

    def __init__(self, selector: str, queues: Sequence[MessageQueue]) -> None:
        self._name = selector
        self._queues = queues
        self._loads = dict.fromkeys(queues, 0)
        self._moved = 0
        self._takes_all = True

    def add(self, key: str, queue: MessageQueue) -> None:
        """Try it on a message of `queue`."""
        if SELECTORS[self._name][1](key) is None:
            self._takes_all = False
        if self._takes_all:
            chosen = self.place(key)
            self._loads[chosen] += 1
            self._moved += chosen != queue

    def place(self, key: str) -> MessageQueue:
        """The queue of a key that the selector takes."""
        selector, given = SELECTORS[self._name]
        return choose(selector, self._queues, Message(self._queues[0].topic, b""), given(key))

    def outcome(self) -> Outcome | None:
        """What came of it; None: the selector does not take all of the keys."""
        if not self._takes_all:
            return None
        tried = sum(self._loads.values())
        return Outcome(
            self._name,
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
