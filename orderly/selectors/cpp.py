"""Where librocketmq puts a sharding key: for topics that C++ and its Python binding send to.

SendMessageOrderlyByShardingKey takes std::hash<std::string> modulo the number of queues. The
standard leaves that hash open; this is the one of libstdc++ (GCC) for 64 bits, which is
MurmurHash64A with a seed of its own. A librocketmq built with libc++ (Clang on macOS) or for 32
bits places keys elsewhere. Source: CProducer.cpp of rocketmq-client-cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from orderly.model import Message, MessageQueue
from orderly.selectors.counting import queue_at
from orderly.selectors.key_text import key_bytes

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
        ConfigError: no queue, or `arg` is neither (a bool is not a key), or is not to be written in
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
