"""One queue with its state and park queue as a broker keeps them: for owners' dialogues."""

from dataclasses import dataclass, field

from orderly.errors import TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.calls import (
    AppendRecord,
    LockQueues,
    MaxOffset,
    MinOffset,
    ParkedRead,
    Peek,
    Peeked,
    QueryOffset,
    ReadParked,
    ReadRecords,
    RecordsRead,
    SaveOffset,
    UnlockQueues,
)
from orderly.ordering.generation import Landmark

QUEUE = MessageQueue("orders", "broker-a", 0)
STATE_QUEUE = MessageQueue("orders-state", "broker-a", 0)
PARK_QUEUE = MessageQueue("orders-park", "broker-a", 0)
BORN = 1_700_000_000_000  # milliseconds since the epoch: when the first of all topics was made
APART = 10  # milliseconds between the store times of two messages


@dataclass
class StateBroker:
    """The broker's part.

    With `lags` only what is `shown` of the log can be read; whoever waits at its end is shown the
    rest. `offset` is the group's committed offset, `park` what is in the park queue, `calls` what
    was asked. The queue has the messages from `minimum` to `end`, stored from `began` on, but for
    those in `unreadable`; its state topic was made at `born`, or is `missing`.
    """

    log: list[bytes] = field(default_factory=list)
    floor: int = 0
    lags: bool = False
    shown: int = 0
    offset: int | None = 0
    owner: str | None = None
    block: int = 32
    park: list = field(default_factory=list)
    minimum: int = 0
    end: int = 1000
    began: int = BORN
    unreadable: frozenset = frozenset()
    born: int = BORN
    missing: bool = False
    calls: list = field(default_factory=list)

    def answer(self, call, client):  # noqa: C901 - a table
        """Carry a call of `client` out."""
        self.calls.append(call)
        match call:
            case AppendRecord() | ReadRecords() if self.missing:
                raise TopicNotFound("no such topic")
            case AppendRecord(_, body):
                self.log.append(body)
                return len(self.log) - 1
            case ReadRecords(_, at, wait):
                return self._read(at, wait=wait)
            case ReadParked(_, at):
                messages = tuple(self.park[at : at + self.block])
                return ParkedRead(messages, at + len(messages), 0)
            case LockQueues(_, queues):
                self.owner = self.owner or client
                return frozenset(queues if self.owner == client else ())
            case UnlockQueues():
                self.owner = None if self.owner == client else self.owner
            case QueryOffset():
                return self.offset
            case SaveOffset(_, offset):
                self.offset = offset
            case MinOffset():
                return self.minimum
            case MaxOffset():
                return self.end
            case Peek(_, at):
                return self._peek(at)
        return None

    def _peek(self, at):
        found = self.minimum <= at < self.end and at not in self.unreadable
        return Peeked(self.stored_at(at) if found else None, self.end)

    def stored_at(self, offset):
        """When a message of the queue was stored."""
        return self.began + APART * offset

    def landmark(self, offset):
        """A message of the queue as one that was finished."""
        return Landmark(offset, self.stored_at(offset))

    def made_anew(self, end, minimum=0, *, later=3_600_000):
        """Delete the queue's topic and make it anew; that deletes its committed offset, too."""
        self.began = self.stored_at(self.end) + later
        self.minimum, self.end, self.offset = minimum, end, None
        self.unreadable = frozenset()

    def state_made_anew(self, later=3_600_000):
        """Delete the state topic and make it anew, empty."""
        self.born += len(self.log) + later
        self.log.clear()
        self.floor = self.shown = 0
        self.missing = False

    def performer(self, client):
        """What answers the calls of one client."""
        return lambda call: self.answer(call, client)

    def asked(self, kind):
        """How often something was asked."""
        return sum(isinstance(call, kind) for call in self.calls)

    def _read(self, at, *, wait):
        if not self.lags or (wait and at == self.shown):
            self.shown = len(self.log)
        if not self.floor <= at <= self.shown:
            return RecordsRead((), self.floor if at < self.floor else self.shown, self.floor)
        end = min(at + self.block, self.shown)
        newest = self.born + end - 1
        return RecordsRead(tuple(enumerate(self.log[at:end], at)), end, self.floor, newest)
