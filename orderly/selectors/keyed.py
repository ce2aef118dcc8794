"""Selectors that place a message by its key: the same key, the same queue.

They keep order only while the list of queues does not change; `layout` guards that. Those of
producers in other languages are in `proxy`, `cpp` and `go`.
"""

from __future__ import annotations

from collections.abc import Sequence

from orderly.errors import ConfigError
from orderly.model import Message, MessageQueue
from orderly.protocol.java_string import java_string_hash
from orderly.selectors.counting import queue_at
from orderly.selectors.key_text import key_text

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


def hash_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue at |hash % n|, where Java's SelectMessageQueueByHash puts the same string.

    Java divides first and makes the remainder positive afterwards, so the one hash whose absolute
    value overflows (-2^31, e.g. of "polygenelubricants") is placed as well.

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
    queue, as a number one below 0 should.

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
