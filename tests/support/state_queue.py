"""One queue with its state and park queue as a broker keeps them: for owners' dialogues."""

from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.ordering.calls import (
    AppendRecord,
    LockQueues,
    MaxOffset,
    MinOffset,
    ParkedRead,
    QueryOffset,
    ReadParked,
    ReadRecords,
    RecordsRead,
    SaveOffset,
    UnlockQueues,
)

QUEUE = MessageQueue("orders", "broker-a", 0)
STATE_QUEUE = MessageQueue("orders-state", "broker-a", 0)
PARK_QUEUE = MessageQueue("orders-park", "broker-a", 0)


@dataclass
class StateBroker:
    """The broker's part.

    With `lags` only what is `shown` of the log can be read; whoever waits at its end is shown the
    rest. `offset` is the group's committed offset, `end` that after the queue's newest message,
    `park` what is in the park queue, `calls` what was asked.
    """

    log: list[bytes] = field(default_factory=list)
    floor: int = 0
    lags: bool = False
    shown: int = 0
    offset: int | None = 0
    owner: str | None = None
    block: int = 32
    park: list = field(default_factory=list)
    end: int = 0
    calls: list = field(default_factory=list)

    def answer(self, call, client):
        """Carry a call of `client` out."""
        self.calls.append(call)
        match call:
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
                return 0
            case MaxOffset():
                return self.end
        return None

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
        return RecordsRead(tuple(enumerate(self.log[at:end], at)), end, self.floor)
