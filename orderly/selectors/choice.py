"""What the producer asks of a selector: a checked queue, and the lane in it that keeps order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from orderly.errors import ConfigError
from orderly.model import Message, MessageQueue
from orderly.selectors.rules import needs_key
from orderly.selectors.unkeyed import RandomQueue, RoundRobin, SingleQueue

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
    """Which of both it is; a producer asks for each message, and so has it told in one step."""
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
    """Name the lane whose messages must keep their order within a queue; None: there is none.

    A key is its own lane, and so is an `arg` in place of a key. Under SingleQueue, and for
    keyless messages of a user's selector, all messages of the queue are one lane.

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
