"""The questions and orders that dialogues put to a broker, as values.

A dialogue is a generator: it yields one of these, the shell performs it (blocking, with a
time-out) and sends the answer back in, or throws the OrderlyError. So whole conversations, and
every failure in them, are tested and simulated without a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from orderly.errors import OrderlyError
from orderly.model import MessageQueue, ReceivedMessage


@dataclass(frozen=True, slots=True)
class LockQueues:
    """Lock, or renew, queues of one broker. Answer: frozenset of those now ours."""

    broker_name: str
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class UnlockQueues:
    """Give the lock of queues of one broker back. Answer: None."""

    broker_name: str
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class QueryOffset:
    """The group's committed offset. Answer: int, or None if none is stored; never a guess."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class HasOffsets:
    """Whether the group has an offset at one broker, in any queue of a topic. Answer: bool.

    `queues` are all that the topic has there.
    """

    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What the member saw of the queue's topic before it joined. Answer: `new_group.NewGroup`.

    None: the group is known in the topic. A failure: that is not known yet.
    """

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class SaveOffset:
    """Commit an offset and wait for the broker's acknowledgement. Answer: None."""

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class MinOffset:
    """The lowest offset the broker still has. Answer: int."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class MaxOffset:
    """The offset after the newest message. Answer: int."""

    queue: MessageQueue


@dataclass(frozen=True, slots=True)
class OffsetAtTime:
    """The first offset stored at or after `moment`. Answer: int."""

    queue: MessageQueue
    moment: datetime


@dataclass(frozen=True, slots=True)
class Peek:
    """Look at the message at `offset`, without consuming it. Answer: Peeked.

    A failure may be `OffsetReset`: a broker reports a reset to the first pull that comes.
    """

    queue: MessageQueue
    offset: int


@dataclass(frozen=True, slots=True)
class Peeked:
    """The answer to Peek.

    Attributes:
        stored_at: when the message was stored (milliseconds since the epoch); None: there is none
            at that offset, or it cannot be read.
        end: the offset after the newest message.
    """

    stored_at: int | None
    end: int


@dataclass(frozen=True, slots=True)
class QueueEnds:
    """Where queues of one topic and broker end. Answer: dict of their last messages, as Peeked."""

    queues: tuple[MessageQueue, ...]


class OffsetReset(OrderlyError):
    """An operator has reset the offset of a queue, to `offset`; the broker says so only once."""

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        super().__init__(f"the offset of {queue} was reset to {offset}; the queue is tried again")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class AppendRecord:
    """Store one record in a queue of the state topic. Answer: int, its queue offset."""

    queue: MessageQueue
    body: bytes


@dataclass(frozen=True, slots=True)
class ReadRecords:
    """One block of a state queue's records from `offset` on. Answer: RecordsRead.

    With `wait` the broker may hold the answer for some seconds until a record comes.
    """

    queue: MessageQueue
    offset: int
    wait: bool = False


@dataclass(frozen=True, slots=True)
class RecordsRead:
    """The answer to ReadRecords.

    Attributes:
        records: queue offset and body of each, rising; empty if there are none (yet).
        next_offset: where to read on.
        min_offset: the oldest record the broker still has.
        stored_at: when the newest of them was stored (milliseconds since the epoch); 0: not known.
    """

    records: tuple[tuple[int, bytes], ...]
    next_offset: int
    min_offset: int
    stored_at: int = 0


@dataclass(frozen=True, slots=True)
class ReadParked:
    """One block of a park queue from `offset` on. Answer: ParkedRead.

    With `tag` only messages that have it. With `wait` the broker may hold the answer for some
    seconds until a message comes.
    """

    queue: MessageQueue
    offset: int
    tag: str | None = None
    wait: bool = False


@dataclass(frozen=True, slots=True)
class ParkedRead:
    """The answer to ReadParked.

    Attributes:
        messages: rising positions; may be empty before the end, too.
        next_offset: where to read on; the queue ends where it is not above what was asked for.
        min_offset: the oldest message the broker still has.
        unsealed: how many that look like parked ones have no seal, where one is needed.
    """

    messages: tuple[ReceivedMessage, ...]
    next_offset: int
    min_offset: int
    unsealed: int = 0


Call = (
    LockQueues
    | UnlockQueues
    | QueryOffset
    | HasOffsets
    | FirstLook
    | SaveOffset
    | MinOffset
    | MaxOffset
    | OffsetAtTime
    | Peek
    | QueueEnds
    | AppendRecord
    | ReadRecords
    | ReadParked
)
WRITES = (SaveOffset, AppendRecord)
"""Calls that would do harm if they came after another member had gone on."""
Answer = TypeVar("Answer")
Dialogue = Generator[Call, Any, Answer]


def converse(dialogue: Dialogue[Answer], perform: Callable[[Call], Any]) -> Answer:
    """Run a dialogue to its end with `perform` answering each call.

    Raises:
        OrderlyError: an error of `perform` that the dialogue did not handle.
    """
    try:
        call = next(dialogue)
        while True:
            try:
                answer = perform(call)
            except OrderlyError as error:
                call = dialogue.throw(error)
            else:
                call = dialogue.send(answer)
    except StopIteration as end:
        result: Answer = end.value
        return result
