"""Where Go's remoting client puts a sharding key: for topics that Go producers send to as well.

Its NewHashQueueSelector takes 32-bit FNV-1a of the key's bytes modulo the number of queues (on a
64-bit machine; elsewhere half of the keys come out negative first and lie elsewhere). It has to be
chosen: without it Go sends round robin. Source: producer/selector.go of rocketmq-client-go.
"""

from __future__ import annotations

from collections.abc import Sequence

from orderly.model import Message, MessageQueue
from orderly.selectors.counting import queue_at
from orderly.selectors.key_text import key_bytes

BASIS = 0x811C9DC5
PRIME = 0x01000193
_32_BITS = (1 << 32) - 1


def go_hash_mod(queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    """The queue that Go's NewHashQueueSelector chooses for the key `arg`.

    Args:
        queues: at least one.
        arg: a `str`, or an `int`, hashed as its decimal text.

    Raises:
        ConfigError: no queue, or `arg` is neither (a bool is not a key), or is not to be written in
            UTF-8.
    """
    return queue_at(queues, fnv1a(key_bytes(arg, "go_hash_mod")), "go_hash_mod")


def fnv1a(data: bytes) -> int:
    """FNV-1a of these bytes: 32 bits, unsigned."""
    value = BASIS
    for byte in data:
        value = (value ^ byte) * PRIME & _32_BITS
    return value
