"""Selectors that place a message by its key: the same key, the same queue.

They keep order only while the list of queues does not change; `layout` guards that. Clients of
other languages choose another queue for the same key. Their rules are here, too, for topics to
which they send.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import MessageQueue
from orderly.protocol.java_string import java_string_hash


def key_text(arg: object, selector: str) -> str:
    """A key as text: a `str` as it is, an `int` as its decimal text.

    Args:
        arg: the key.
        selector: who asks, for the error.

    Raises:
        ConfigError: `arg` is neither (a bool is not a key).
    """
    if isinstance(arg, str):
        return arg
    if isinstance(arg, int) and not isinstance(arg, bool):
        return str(int(arg))
    raise ConfigError(
        f"{selector} needs a str or an int as sharding key or arg, not {arg!r};"
        " pass the text that identifies the thing whose messages must stay in order"
    )


def key_bytes(arg: object, selector: str) -> bytes:
    """A key's text in UTF-8, as clients that count bytes send and hash it.

    Raises:
        ConfigError: as `key_text`, or a lone surrogate, which UTF-8 cannot encode.
    """
    text = key_text(arg, selector)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{selector}: the key {text!r} has a lone surrogate, which no other client can send"
        ) from error


def queue_at(queues: Sequence[MessageQueue], number: int, selector: str) -> MessageQueue:
    """The queue at `number` modulo their count.

    Args:
        queues: at least one.
        number: any, below 0 too.
        selector: who asks, for the error.

    Raises:
        ConfigError: there is no queue.
    """
    try:
        return queues[number % len(queues)]
    except (TypeError, ZeroDivisionError) as error:  # a check beforehand would cost each send
        raise no_queues(queues, selector) from error


def no_queues(queues: object, selector: str) -> ConfigError:
    """The error of a selector that was given nothing to choose from."""
    shown = "an empty one" if isinstance(queues, Sequence) else type(queues).__name__
    return ConfigError(f"{selector}: queues must be a list with a MessageQueue, not {shown}")


# --- as Java's SelectMessageQueueByHash, and by number --------------------------------------------


_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def hash_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue at |hash % n|: as Java's SelectMessageQueueByHash chooses for the same string.

    Java divides first and then makes the remainder positive. So the one hash whose absolute value
    overflows (-2^31, for example of "polygenelubricants") gets a place, too.

    Args:
        queues: at least one.
        arg: a `str`, hashed as Java's String.hashCode; or an `int`, hashed as its decimal text
            (a Java producer that passes an Integer or Long places it elsewhere: agree on strings).

    Raises:
        ConfigError: no queue, or `arg` is neither (a bool is not a key).
    """
    return queue_at(queues, abs(java_string_hash(key_text(arg, "hash_mod"))), "hash_mod")


def numeric_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue at `arg` modulo n, for keys that are numbers.

    The remainder is never negative (floor division, as Java's Math.floorMod): -1 goes to the last
    queue.

    Args:
        queues: at least one.
        arg: an `int` of 64 bits at most.

    Raises:
        ConfigError: no queue, or not an int (neither bool nor digits in a str), or beyond 64 bits.
    """
    if isinstance(arg, bool) or not isinstance(arg, int):
        raise ConfigError(
            f"numeric_mod needs an int as sharding key or arg, not {arg!r}; use hash_mod for text"
        )
    if not _LONG_MIN <= arg <= _LONG_MAX:
        raise ConfigError(f"numeric_mod: {arg} does not fit into 64 bits; use hash_mod")
    return queue_at(queues, arg, "numeric_mod")


# --- as librocketmq, for topics that C++ and its Python binding send to ---------------------------
# SendMessageOrderlyByShardingKey takes std::hash<std::string> modulo the number of queues. The
# standard leaves that hash open; this is the one of libstdc++ (GCC) for 64 bits, which is
# MurmurHash64A with a seed of its own. A librocketmq built with libc++ (Clang on macOS) or for 32
# bits places keys elsewhere. Source: CProducer.cpp of rocketmq-client-cpp.


_64_BITS = (1 << 64) - 1
SEED = 0xC70F6907
FACTOR = 0xC6A4A7935BD1E995
SHIFT = 47
WORD = 8  # bytes


def cpp_hash_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue that librocketmq's SendMessageOrderlyByShardingKey chooses for the key `arg`.

    Args:
        queues: at least one.
        arg: a `str`, or an `int`, hashed as its decimal text.

    Raises:
        ConfigError: no queue, or `arg` is neither (a bool is not a key), or cannot be written in
            UTF-8.
    """
    return queue_at(queues, murmur(key_bytes(arg, "cpp_hash_mod")), "cpp_hash_mod")


def murmur(data: bytes) -> int:
    """std::hash of these bytes in libstdc++: 64 bits, unsigned."""
    whole = len(data) // WORD * WORD
    value = SEED ^ (len(data) * FACTOR & _64_BITS)
    for start in range(0, whole, WORD):
        word = int.from_bytes(data[start : start + WORD], "little")
        word = _mixed(word * FACTOR & _64_BITS) * FACTOR & _64_BITS
        value = (value ^ word) * FACTOR & _64_BITS
    if whole < len(data):
        rest = int.from_bytes(data[whole:], "little")
        value = (value ^ rest) * FACTOR & _64_BITS
    return _mixed(_mixed(value) * FACTOR & _64_BITS)


def _mixed(value: int) -> int:
    return value ^ value >> SHIFT


# --- as Go's remoting client ----------------------------------------------------------------------
# Its NewHashQueueSelector takes 32-bit FNV-1a of the key's bytes modulo the number of queues (on a
# 64-bit machine; elsewhere half of the keys come out negative first and lie elsewhere). It has to
# be chosen: without it Go sends round robin. Source: producer/selector.go of rocketmq-client-go.


BASIS = 0x811C9DC5
PRIME = 0x01000193
_32_BITS = (1 << 32) - 1


def go_hash_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue that Go's NewHashQueueSelector chooses for the key `arg`.

    Args:
        queues: at least one.
        arg: a `str`, or an `int`, hashed as its decimal text.

    Raises:
        ConfigError: no queue, or `arg` is neither (a bool is not a key), or cannot be written in
            UTF-8.
    """
    return queue_at(queues, fnv1a(key_bytes(arg, "go_hash_mod")), "go_hash_mod")


def fnv1a(data: bytes) -> int:
    """FNV-1a of these bytes: 32 bits, unsigned."""
    value = BASIS
    for byte in data:
        value = (value ^ byte) * PRIME & _32_BITS
    return value


# --- as RocketMQ's 5.x proxy, for topics that gRPC clients send to --------------------------------
# gRPC clients of every language hash in a way of their own, but only to choose whom they talk to:
# the proxy chooses the queue. Sources: its SendMessageActivity (Guava's Hashing.consistentHash of
# the group's String.hashCode) and MessageQueueSelector (the list of queues, sorted).


MULTIPLIER = 2862933555777941757  # of the linear congruential generator in Guava
HIGH_BITS = 33  # of its state are dropped
MOST = (1 << 31) - 1  # Java's int; one more is below 0

_by_name = attrgetter("broker_name")


def proxy_hash(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue that the 5.x proxy chooses for a message of the message group `arg`.

    The proxy counts brokers by name, even if an order configuration lists them otherwise, and
    leaves out those without a master. In these cases it disagrees with all other clients.

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

    If you add one bucket, each number stays in its bucket or goes to the new one.

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
