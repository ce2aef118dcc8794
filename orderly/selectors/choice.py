"""The list of selectors, and what a producer needs of one: a checked queue, and the key's lane.

Selectors that do not look at a key are here; those that do are in `keyed`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from orderly.config.arguments import check_arguments, check_count, check_function
from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.selectors.keyed import (
    cpp_hash_mod,
    go_hash_mod,
    hash_mod,
    in_proxy_order,
    numeric_mod,
    proxy_hash,
)


@dataclass(frozen=True, slots=True)
class SingleQueue:
    """Global order: every message goes to one queue, with any key.

    The throughput is that of one queue. After a failed send the whole queue is held, not one key.

    Args:
        index: of the queue in the topic's list.

    Raises:
        ConfigError: an index below 0.
    """

    index: int = 0

    def __post_init__(self) -> None:
        check_count("index", self.index, 0)

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, _arg: object
    ) -> MessageQueue:
        """Return the queue at `index`.

        Raises:
            ConfigError: the topic has fewer queues.
        """
        if self.index >= len(queues):
            raise ConfigError(
                f"topic {message.topic} has {len(queues)} queues; index {self.index} is too high"
            )
        return queues[self.index]


single_queue = SingleQueue()


class RoundRobin:
    """Sends each message to the next queue: an even spread, and no order. Thread-safe."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def __call__(
        self, queues: Sequence[MessageQueue], _message: Message, _arg: object
    ) -> MessageQueue:
        """Return the queue whose turn it is."""
        return queues[next(self._turns) % len(queues)]


class RandomQueue:
    """Sends each message to a random queue (Java: SelectMessageQueueByRandom): no order.

    Args:
        pick: `pick(n)` returns a number from 0 to n-1, e.g. `random.randrange`.

    Raises:
        ConfigError: `pick` cannot be called this way.
    """

    def __init__(self, pick: Callable[[int], int]) -> None:
        check_function("pick", pick)
        check_arguments("pick", pick, "queues")
        self._pick = pick

    def __call__(
        self, queues: Sequence[MessageQueue], _message: Message, _arg: object
    ) -> MessageQueue:
        """Return the picked queue."""
        return queues[self._pick(len(queues))]


# --- the one table of the selectors that look at a key --------------------------------------------
# Everything that offers selectors by name, or asks which of them put messages where they are,
# reads this table.


_INT_DIGITS = 19
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """A selector that can be chosen by name.

    Attributes:
        name: of the selector.
        selector: itself.
        producers: the producers that place keys this way.
        given: what the selector gets for a stored key, which is always text; None: it takes no such
            key.
        counted: a topic's queues in the order in which the selector counts them.
    """

    name: str
    selector: Selector
    producers: str
    given: Callable[[str], str | int | None] = str
    counted: Callable[[Sequence[MessageQueue]], Sequence[MessageQueue]] = tuple


def stored_number(key: str) -> int | None:
    """The number that a key's text means, written as a producer writes it; None: not a number."""
    digits = key.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or len(digits) > _INT_DIGITS:
        return None
    number = int(key)
    return number if str(number) == key and -_LONG_MAX - 1 <= number <= _LONG_MAX else None


_RULES = (
    Rule("hash_mod", hash_mod, "Java's SelectMessageQueueByHash; the default here"),
    Rule("numeric_mod", numeric_mod, "number modulo queues, as in many examples", stored_number),
    Rule(
        "proxy_hash",
        proxy_hash,
        "the 5.x proxy, for gRPC clients of all languages",
        counted=in_proxy_order,
    ),
    Rule("cpp_hash_mod", cpp_hash_mod, "librocketmq: C++, and Python's older binding"),
    Rule("go_hash_mod", go_hash_mod, "Go's NewHashQueueSelector"),
)
KEYED: dict[str, Rule] = {rule.name: rule for rule in _RULES}
"""By name, the most usual first."""
_SELECTORS = tuple(rule.selector for rule in KEYED.values())


def needs_key(selector: Selector) -> bool:
    """Whether a selector needs a key to choose a queue."""
    return selector in _SELECTORS


# --- the choice -----------------------------------------------------------------------------------


Selector = Callable[[Sequence[MessageQueue], Message, object], MessageQueue]


class Queues(tuple[MessageQueue, ...]):  # noqa: SLOT001 - a tuple cannot have any
    """The queues that selectors get; says without looking through all of them what is among them.

    Selectors return an element: its identity is enough (1,024 queues: 5 us less for each send).
    """

    def __init__(self, _queues: Iterable[MessageQueue]) -> None:
        self._identities = frozenset(map(id, self))

    def __contains__(self, queue: object) -> bool:
        return id(queue) in self._identities or super().__contains__(queue)


KEYLESS_LANE = ""  # no key is empty, so this lane is nobody else's


def check_selector(selector: Selector) -> Selector:
    """Return `selector` if it can be called, else raise ConfigError."""
    if not callable(selector):
        raise ConfigError(
            "a selector is a function of (queues, message, arg) that returns one of the queues,"
            f" not {selector!r}; orderly.selectors has some"
        )
    return selector


def _unusable(selector: Selector, message: object) -> ConfigError:
    """Which of both it is; a producer asks for each message, so it gets the answer in one step."""
    check_selector(selector)
    return ConfigError(f"message must be a Message, not {type(message).__name__}")


def choose(
    selector: Selector, queues: Sequence[MessageQueue], message: Message, arg: object
) -> MessageQueue:
    """Ask `selector` for a queue and check the answer.

    Args:
        selector: one of this package, or the user's.
        queues: at least one.
        message: the message to place.
        arg: None: the message's sharding key.

    Raises:
        ConfigError: the selector refused `arg`, or returned something that is not in `queues`.
    """
    if not callable(selector) or not isinstance(message, Message):
        raise _unusable(selector, message)
    chosen = selector(queues, message, message.sharding_key if arg is None else arg)
    if chosen in queues:
        return chosen
    raise ConfigError(
        f"the selector returned {chosen!r}, which is not one of the {len(queues)} queues of"
        f" {message.topic} it was given"
    )


def lane_of(selector: Selector, message: Message, arg: object) -> str | None:
    """Name the lane whose messages must keep their order within a queue; None: no order to keep.

    A key is its own lane, and so is an `arg` instead of a key. With SingleQueue, and for messages
    without a key under your own selector, all messages of the queue are one lane.

    Raises:
        ConfigError: a key with a selector that keeps no order.
    """
    if not callable(selector) or not isinstance(message, Message):
        raise _unusable(selector, message)
    if isinstance(selector, SingleQueue):
        return KEYLESS_LANE
    key = message.sharding_key if message.sharding_key is not None else arg
    if isinstance(selector, RoundRobin | RandomQueue):
        if message.sharding_key is not None:
            raise ConfigError(
                f"{type(selector).__name__} keeps no order, but the message has the sharding key"
                f" {message.sharding_key!r}: use hash_mod, or leave the key out"
            )
        return None
    if isinstance(key, str | int) and not isinstance(key, bool):
        return str(key)
    return None if needs_key(selector) else KEYLESS_LANE
