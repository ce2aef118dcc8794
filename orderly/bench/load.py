"""The messages of a measurement: which key comes next, and bodies that say when and which.

A body begins with a mark, the number of the run, the message's number within its key and the time
of its making; so that a consumer can judge order and delay. The rest are hexadecimal digits by
chance, which compress to a half, about as JSON does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle, pairwise
from typing import NamedTuple

from orderly.model import Message, ReceivedMessage

STAMP = struct.Struct(">4sIQQ")  # mark, run, number within the key, nanoseconds since the epoch
_MARK = b"orB1"
_BLOCK = 1024  # keys drawn at once


class Stamp(NamedTuple):
    """What the body of a measurement's message says."""

    run: int
    number: int
    time_ns: int


def stamp_of(message: ReceivedMessage) -> Stamp | None:
    """Read the stamp; None: a message of somebody else."""
    body = message.body
    if len(body) < STAMP.size:
        return None
    mark, *fields = STAMP.unpack_from(body)
    return Stamp(*fields) if mark == _MARK else None


def filler(size: int) -> bytes:
    """Bytes that follow the stamp in a body of `size` bytes."""
    return random.Random(size).randbytes(size // 2 + 1).hex().encode()[: size - STAMP.size]  # noqa: S311


def weights(keys: int, skew: float) -> list[float]:
    """How often each key comes, in proportion (Zipf's law; with 0 all alike)."""
    return [(rank + 1) ** -skew for rank in range(keys)]


def shares(count: int, keys: int, skew: float, threads: int) -> list[int]:
    """How many of `count` messages each thread sends: as many as its keys are due."""
    all_weights = weights(keys, skew)
    sums = list(accumulate(sum(all_weights[thread::threads]) for thread in range(threads)))
    ends = [0, *(round(count * upto / sums[-1]) for upto in sums)]
    return [end - start for start, end in pairwise(ends)]


def key_indexes(keys: int, skew: float, thread: int, threads: int) -> Iterator[int]:
    """The keys of one thread's messages, without end; `thread` + n * `threads` are its keys."""
    own = range(thread, keys, threads)
    if skew == 0:
        yield from cycle(own)
    limits = list(accumulate(weights(keys, skew)[thread::threads]))
    chance = random.Random(thread)  # noqa: S311 - the same load each time
    while True:
        yield from chance.choices(own, cum_weights=limits, k=_BLOCK)


class Load:
    """Makes the messages of one thread, each key numbered from 0. For one thread.

    Args:
        topic: where they go.
        run: the number of the run; keys are numbered anew in each.
        indexes: whose turn it is.
        keys: how many there are, of all threads.
        size: bytes of a body.
    """

    def __init__(self, topic: str, run: int, indexes: Iterator[int], keys: int, size: int) -> None:
        self._topic = topic
        self._run = run
        self._indexes = indexes
        self._numbers = [0] * keys
        self._names: Sequence[str] = [f"key-{index}" for index in range(keys)]
        self._filler = filler(size)

    def next(self, time_ns: int) -> Message:
        """Make the next message.

        Args:
            time_ns: nanoseconds since the epoch.
        """
        index = next(self._indexes)
        number = self._numbers[index]
        self._numbers[index] = number + 1
        body = STAMP.pack(_MARK, self._run, number, time_ns) + self._filler
        return Message(self._topic, body, sharding_key=self._names[index])
