"""Where RocketMQ's 5.x proxy puts a message group: for topics that gRPC clients send to as well.

gRPC clients of every language hash in a way of their own, but only to choose whom they talk to:
the proxy chooses the queue. Sources: its SendMessageActivity (Guava's Hashing.consistentHash of
the group's String.hashCode) and MessageQueueSelector (the list of queues, sorted).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from orderly.model import Message, MessageQueue
from orderly.protocol.java_string import java_string_hash
from orderly.selectors.counting import no_queues
from orderly.selectors.key_text import key_text

_64_BITS = (1 << 64) - 1
MULTIPLIER = 2862933555777941757  # of the linear congruential generator in Guava
HIGH_BITS = 33  # of its state are dropped
MOST = (1 << 31) - 1  # Java's int; one more is below 0

_by_name = attrgetter("broker_name")


def proxy_hash(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue that the 5.x proxy chooses for a message of the message group `arg`.

    The proxy counts brokers by name, also where an order configuration lists them otherwise, and
    leaves out those without a master: then it disagrees with everybody else.

    Args:
        queues: at least one.
        arg: a `str`, or an `int`, hashed as its decimal text.

    Raises:
        ConfigError: no queue, or `arg` is neither (a bool is not a key).
    """
    number = java_string_hash(key_text(arg, "proxy_hash"))
    try:
        return in_proxy_order(queues)[consistent_hash(number, len(queues))]
    except (AttributeError, IndexError, TypeError) as error:
        raise no_queues(queues, "proxy_hash") from error


def in_proxy_order(queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
    """The queues of a topic, as the proxy counts them."""
    return sorted(queues, key=_by_name)


def consistent_hash(number: int, buckets: int) -> int:
    """Guava's Hashing.consistentHash (after Lamping and Veach, "jump consistent hash").

    With one bucket more, a number stays where it is or goes to the new one.

    Args:
        number: of 64 bits, signed or not; a Java int is widened with its sign.
        buckets: 1 or more.
    """
    state, place = number & _64_BITS, 0
    while True:
        state = (MULTIPLIER * state + 1) & _64_BITS
        drawn = (state >> HIGH_BITS) + 1
        if drawn > MOST:  # Java's int overflows, the quotient is below 0, and the search ends
            return place
        following = int((place + 1) / (drawn / (1 << 31)))
        if following >= buckets:
            return place
        place = following
