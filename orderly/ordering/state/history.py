"""The records of a state queue, read backwards as far as they are needed, and which of them count.

An owner's entry counts unless a higher token was confirmed between the entry it follows and itself:
a former owner that still sends cannot know of that confirmation, and whoever looked does not send.
So a look at that gap tells what counts, without reading the whole queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orderly.errors import NotAvailableYet, OrderlyError, ProtocolError
from orderly.model import MessageQueue
from orderly.ordering.calls import Dialogue, ReadRecords
from orderly.ordering.parking.keys import Kept, Key, ParkedKey, ParkedKeys
from orderly.ordering.state.runs import Runs, above, union
from orderly.protocol.state_record import VERSION, Confirm, Entry, Record, Unknown, decode_record

BLOCK = 32  # records; a broker gives no more at once
_PATIENCE = 3  # empty answers, each after a wait, before a record counts as invisible


@dataclass(frozen=True, slots=True)
class State:
    """What an owner had on record.

    Attributes:
        offset: the state queue's, of the newest entry.
        entry: the newest entry.
        runs: everything finished above its `low`.
        kept: the keys that wait in the park topic, and how far commands are settled.
    """

    offset: int
    entry: Entry
    runs: Runs
    kept: Kept


class History:
    """A window on a state queue that grows backwards. Not thread-safe.

    Its dialogues raise OrderlyError when a call fails or a stored record does not become visible.

    Args:
        queue: of the state topic.
        end: the window ends before this offset; what is below must be stored, if not visible yet.
        block: how many records it grows by.
    """

    def __init__(self, queue: MessageQueue, end: int, block: int = BLOCK) -> None:
        self._queue = queue
        self._block = block
        self._first = end  # everything from here on was read
        self._floor = 0  # the broker has nothing older
        self._records: dict[int, Record] = {}

    def read_from(self, start: int) -> Dialogue[None]:
        """Have the window begin at `start`, waiting until what is in it is visible."""
        at, empty = max(0, start), 0
        while at < self._first:
            read = yield ReadRecords(self._queue, at, wait=True)
            self._floor = max(self._floor, read.min_offset)
            for offset, body in read.records:
                self._add(offset, body)
            if read.next_offset <= at:
                empty += 1
                if empty > _PATIENCE:
                    raise OrderlyError(
                        f"a record of {self._queue} that the broker stored cannot be read there;"
                        " it is tried again, look at the broker if this goes on"
                    )
            at = read.next_offset
        self._first = min(start, self._first)

    @property
    def floor(self) -> int:
        """The oldest record that the broker has, as far as was read."""
        return self._floor

    def reach(self, offset: int) -> Dialogue[bool]:
        """Read back to `offset`; returns whether the broker still has it."""
        if self._floor <= offset < self._first:
            yield from self.read_from(min(offset, self._first - self._block))
        return offset >= self._floor

    def at(self, offset: int) -> Record | None:
        """The record at an offset within reach; None: it cannot be read."""
        return self._records.get(offset)

    def between(self, after: int, before: int) -> Iterator[Record | None]:
        """What lies between two offsets and has not expired; None is a record that is damaged."""
        return map(self._records.get, range(max(after + 1, self._floor), before))

    def fences(self, token: int) -> bool:
        """Whether a higher token is known to have been confirmed since `token` was given."""
        return any(
            isinstance(record, Confirm) and record.token > token and offset > token
            for offset, record in self._records.items()
        )

    def confirms(self, after: int, before: int) -> int:
        """How often the queue was taken over between two offsets."""
        return sum(isinstance(record, Confirm) for record in self.between(after, before))

    def counts(self, offset: int, entry: Entry) -> Dialogue[bool]:
        """Whether `entry`, stored at `offset`, counts.

        It does if the one it follows is its owner's, and between the two nobody with a higher
        token was confirmed, its owner wrote nothing later (a send without a reply may be stored
        behind the next), and everything can be read. What follows an expired one does not: the
        confirmation between them may have expired, too.
        """
        if not entry.token < entry.previous < offset or not (yield from self.reach(entry.previous)):
            return False
        return _same_owner(self.at(entry.previous), entry) and not any(
            _overrules(other, entry) for other in self.between(entry.previous, offset)
        )

    def newest(self, before: int) -> Dialogue[tuple[State | None, bool]]:
        """The newest state below an offset, and whether something newer could not be read.

        Raises:
            NotAvailableYet: a newer release wrote here.
        """
        damaged = False
        offset = before - 1
        while (yield from self.reach(offset)):
            record = self.at(offset)
            _check_known(record)
            damaged = damaged or record is None
            if (
                isinstance(record, Entry)
                and record.complete
                and (yield from self.counts(offset, record))
            ):
                state = yield from self._state(offset, record)
                if state is not None:
                    return state, damaged
                damaged = True
            offset -= 1
        return None, damaged

    def _state(self, offset: int, newest: Entry) -> Dialogue[State | None]:
        """Put a state together from the entries it builds on; None: one is missing."""
        entries = [newest]
        while entries[-1].chunks == 0 or entries[-1].chunk > 0:
            below = yield from self._followed(entries[-1])
            if below is None:
                return None
            entries.append(below)
        entries.reverse()
        runs: Runs = ()
        for entry in entries:
            runs = union(above(runs, entry.low), entry.runs)
        return State(offset, newest, runs, _kept(entries))

    def _followed(self, entry: Entry) -> Dialogue[Entry | None]:
        """The entry that `entry` builds on: the chunk before it, or the state it changes."""
        if not (yield from self.reach(entry.previous)):
            return None
        below = self.at(entry.previous)
        if not isinstance(below, Entry) or not _same_owner(below, entry):
            return None
        if below.number >= entry.number:
            return None
        if entry.chunks == 0:
            return below
        fits = (below.chunk, below.chunks) == (entry.chunk - 1, entry.chunks)
        return below if fits else None

    def _add(self, offset: int, body: bytes) -> None:
        try:
            self._records[offset] = decode_record(body)
        except ProtocolError:
            self._records.pop(offset, None)


def _kept(entries: list[Entry]) -> Kept:
    """What is parked after some entries, oldest first, that begin with everything."""
    parked: dict[Key, ParkedKey] = {}
    for entry in entries:
        parked |= {each.key: each for each in entry.parked}
        for key in entry.released:
            parked.pop(key, None)
    table = ParkedKeys(Kept(tuple(parked.values()), entries[-1].commands))
    return table.kept


def _check_known(record: Record | None) -> None:
    if isinstance(record, Unknown):
        raise NotAvailableYet(
            f"the queue's state is of format {record.version}, this release reads {VERSION}: a"
            " member of a newer release owned the queue; upgrade this one"
        )


def _same_owner(record: Record | None, entry: Entry) -> bool:
    return isinstance(record, Confirm | Entry) and (record.owner, record.token) == (
        entry.owner,
        entry.token,
    )


def _overrules(other: Record | None, entry: Entry) -> bool:
    """Whether what lies between an entry and the one it follows says that it does not count."""
    if isinstance(other, Confirm):
        return other.token > entry.token
    if isinstance(other, Entry):
        return _same_owner(other, entry) and other.number > entry.number
    return other is None or isinstance(other, Unknown)
