"""The records of a state queue: what an owner writes, and which records a reader believes.

`StateWriter` writes what the owner knows, as little and as small as recovery allows. An entry
holds what changed since the last one, or everything. `StateReader` reads a state queue backwards.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from orderly.errors import LockLost, NotAvailableYet, OrderlyError, ProtocolError
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import AppendRecord, Dialogue, ReadRecords
from orderly.ordering.crashes import NO_CRASHES, Crashes
from orderly.ordering.fence import Fence
from orderly.ordering.offset_runs import Runs, above, difference, union
from orderly.ordering.parking import NOTHING_PARKED, ParkedKeys, ParkingState
from orderly.protocol.java_json import dumps
from orderly.protocol.parked_key import PARKED_KEY, Key, ParkedKey
from orderly.protocol.state_record import (
    MAX_RUNS,
    MAX_SENT_AGAIN,
    PARKED_CHUNKS,
    RUN_BYTES,
    RUNS_A_RECORD,
    TOKEN_EPOCH,
    VERSION,
    Confirm,
    Entry,
    Record,
    SentAgain,
    Trying,
    Unknown,
    decode_record,
    encode_record,
)

# --- what an entry says, and how it is cut into records -------------------------------------------


_RECORD_BYTES = RUNS_A_RECORD * RUN_BYTES  # bytes of a record that runs and parked keys may take


@dataclass(frozen=True, slots=True)
class StateContent:
    """The content of the newest entry."""

    low: int = 0
    previous_low: int = 0
    runs: Runs = ()
    kept: ParkingState = NOTHING_PARKED
    crashes: Crashes = NO_CRASHES
    sent_again: tuple[SentAgain, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordPart:
    """What one record says; see `Entry`."""

    runs: Runs = ()
    parked: tuple[ParkedKey, ...] = ()
    released: tuple[Key, ...] = ()


def change(last: StateContent, content: StateContent) -> RecordPart | None:
    """Return what `content` says that `last` did not; None: a change cannot say it, or is no less.

    Args:
        last: what is on record.
        content: what is to be.
    """
    if content.low < last.low:
        return None
    new = difference(content.runs, last.runs)
    if union(above(last.runs, content.low), new) != content.runs:
        return None
    before = {each.key: each for each in last.kept.parked}
    parked = tuple(each for each in content.kept.parked if before.get(each.key) != each)
    left = {each.key for each in content.kept.parked}
    released = tuple(key for key in before if key not in left)
    part = RecordPart(new, parked, released)
    size = _size(part)
    return part if size <= _RECORD_BYTES and _takes_more(content, size) else None


def everything(content: StateContent) -> list[RecordPart]:
    """Cut all of `content` into what one record takes; nothing is one part, too.

    Raises:
        OrderlyError: there are too many parked keys. None may be left out, so nothing is written.
    """
    parts = [RecordPart(parked=parked) for parked in _cut(content.kept.parked)]
    if len(parts) > PARKED_CHUNKS:
        raise OrderlyError(
            f"{len(content.kept.parked)} parked keys do not fit into a state record: release some"
        )
    runs = content.runs
    parts += [
        RecordPart(runs[at : at + RUNS_A_RECORD]) for at in range(0, len(runs), RUNS_A_RECORD)
    ]
    return parts or [RecordPart()]


def _cut(parked: tuple[ParkedKey, ...]) -> Iterator[tuple[ParkedKey, ...]]:
    """Cut parked keys into what one record takes."""
    begun, size = 0, 0
    for place, each in enumerate(parked):
        more = _bytes(each)
        if size + more > _RECORD_BYTES:
            yield parked[begun:place]
            begun, size = place, 0
        size += more
    if parked:
        yield parked[begun:]


def _size(part: RecordPart) -> int:
    """Bytes that a part takes in its record, at most."""
    keys = sum(map(_bytes, part.parked)) + sum(len(dumps(key)) + 1 for key in part.released)
    return len(part.runs) * RUN_BYTES + keys


def _takes_more(content: StateContent, size: int) -> bool:
    """Whether all of `content` takes more bytes; counts no further than it takes to know."""
    left = size - len(content.runs) * RUN_BYTES
    for each in content.kept.parked:
        if left < 0:
            break
        left -= _bytes(each)
    return left < 0


def _bytes(parked: ParkedKey) -> int:
    return len(dumps([*PARKED_KEY.write(parked), parked.generation, parked.counted_to])) + 1


# --- reading: which records count -----------------------------------------------------------------
# An owner's entry counts unless a higher token was confirmed between the entry it follows and
# itself: a former owner that still sends cannot know of that confirmation, and whoever looked does
# not send. So a look at that gap shows what counts, without reading the whole queue.


BLOCK = 32  # records; a broker gives no more at once
_PATIENCE = 3  # empty answers, each after a wait, before a record counts as invisible


@dataclass(frozen=True, slots=True)
class RecordedState:
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
    kept: ParkingState


class StateReader:
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
        self._stored_at = 0

    def read_from(self, start: int) -> Dialogue[None]:
        """Have the window begin at `start`, waiting until what is in it is visible."""
        at, empty = max(0, start), 0
        while at < self._first:
            read = yield ReadRecords(self._queue, at, wait=True)
            self._floor = max(self._floor, read.min_offset)
            self._stored_at = max(self._stored_at, read.stored_at)
            for offset, body in read.records:
                self._add(offset, body)
            if read.next_offset <= at:
                empty += 1
                if empty > _PATIENCE:
                    raise OrderlyError(
                        f"a record that the broker stored in {self._queue} cannot be read; the"
                        " member tries again. If this continues, look at the broker"
                    )
            at = read.next_offset
        self._first = min(start, self._first)

    @property
    def stored_at(self) -> int:
        """When the newest record that was read was stored (milliseconds since the epoch)."""
        return self._stored_at

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

    def newest(self, before: int) -> Dialogue[tuple[RecordedState | None, bool]]:
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

    def _state(self, offset: int, newest: Entry) -> Dialogue[RecordedState | None]:
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
        return RecordedState(offset, newest, runs, _kept(entries))

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


def _kept(entries: list[Entry]) -> ParkingState:
    """What is parked after some entries, oldest first, that begin with everything."""
    parked: dict[Key, ParkedKey] = {}
    for entry in entries:
        parked |= {each.key: each for each in entry.parked}
        for key in entry.released:
            parked.pop(key, None)
    table = ParkedKeys(ParkingState(tuple(parked.values()), entries[-1].commands))
    return table.kept


def _check_known(record: Record | None) -> None:
    if isinstance(record, Unknown):
        raise NotAvailableYet(
            f"the queue's state is of format {record.version}, this release reads {VERSION}: a"
            " member of a newer release owned the queue; upgrade this member"
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


# --- writing: what goes on record, and when -------------------------------------------------------
# Before an entry counts as written the owner makes sure of what a reader will ask: whether anybody
# was confirmed between its last two entries.


_TOKEN_BITS = 22  # of a token: an offset; a larger one counts as a millisecond more
MAX_CHANGES = 16  # since everything was written: with a take-over's own they fit into one block


class StateWriter:
    """The records of one owner. Not thread-safe: one dialogue at a time.

    Args:
        queue: of the state topic.
        owner: client id.
        token: queue offset of its acquire record.
        confirm: queue offset of its confirm record.
        epoch: how many times the queue was taken over.
        found: what the newest entry says.
        generation: of the source topic.
        token_time: see `Entry`.
        landmark: whether the newest entry has one.
        window: of the newest entry.
        stale: whether the newest entry must be replaced at the first occasion.

    Attributes:
        token: the queue offset of the acquire record; rises with each owner of the queue.
        epoch: how many times the queue was taken over.
        generation: see above.
        closed: whether the mark of a clean end is written.
    """

    def __init__(
        self,
        queue: MessageQueue,
        owner: str,
        token: int,
        *,
        confirm: int,
        epoch: int,
        found: StateContent,
        generation: int = 0,
        token_time: int = 0,
        landmark: bool = False,
        window: tuple[int, ...] = (),
        stale: bool = False,
    ) -> None:
        self.token = token
        self.epoch = epoch
        self.generation = generation
        self.closed = False
        self._queue = queue
        self._owner = owner
        self._token_time = token_time
        self._previous = confirm  # of the newest entry known to be stored and to count
        self._end = confirm + 1  # all records from there to here are ours
        self._last = found
        self._stale = stale
        self._begun_anew = False
        self._has_landmark = landmark
        self._window = window
        self._sure = frozenset() if stale else _parked_in(found)  # parked on record in any case
        self._number = 0
        self._changes: int | None = None  # since everything was written; None: never yet

    @property
    def fencing_token(self) -> int:
        """The token as programs are given it: a time, then the offset of the acquire record.

        It rises even if the state topic was recreated, or lost its last records, and offsets
        come again; and for the sake of the offset where the broker's clock was set back.
        """
        return (max(0, self._token_time - TOKEN_EPOCH) << _TOKEN_BITS) + self.token

    def recorded(self, key: Hashable) -> bool:
        """Whether a key is parked on record, whichever of the writes in doubt are stored.

        May be asked from any thread.
        """
        return key in self._sure

    def due(
        self,
        low: int,
        previous_low: int,
        runs: Runs,
        kept: ParkingState = NOTHING_PARKED,
        crashes: Crashes = NO_CRASHES,
        *,
        sent_again: tuple[SentAgain, ...] = (),
        fence: Fence | None = None,
    ) -> bool:
        """Whether this is to be written before `low` is committed; arguments as `remember`.

        True when the parked keys or the crashes changed; and while something is finished ahead and
        it changed, and once more when nothing is. Then once more when the broker has stored the
        last entry's `low`: from that on a reset to an earlier offset cannot be mistaken for a
        crash. Ask also when there is nothing to commit. And when there is a first landmark.
        """
        if self._stale or self._lacks_landmark(fence) or self._looks_former(low):
            return True
        return (
            self._content(low, previous_low, runs, kept, crashes, sent_again=sent_again)
            != self._last
        )

    def _looks_former(self, low: int) -> bool:
        """Whether an heir would take this offset for one of a former generation of the topic."""
        return self.generation > 0 and low > self._last.low and low in self._window

    def _lacks_landmark(self, fence: Fence | None) -> bool:
        return not self._has_landmark and fence is not None and fence.landmark is not None

    def remember(
        self,
        low: int,
        previous_low: int,
        runs: Runs,
        kept: ParkingState = NOTHING_PARKED,
        crashes: Crashes = NO_CRASHES,
        *,
        sent_again: tuple[SentAgain, ...] = (),
        fence: Fence | None = None,
        closed: bool = False,
        refresh: bool = False,
    ) -> Dialogue[None]:
        """Write what is finished, if it is due.

        Call it after the lock was renewed, and commit `low` only if it returned.

        Args:
            low: the lowest unfinished offset, about to be committed.
            previous_low: the offset that the broker has stored.
            runs: what is finished above `low`, including what was inherited and not pulled yet
                (`runs.union`). Over MAX_RUNS the highest are left out: they would be repeated.
            kept: the parked keys: all of them.
            crashes: owners that ended without closing, and what they were handling.
            sent_again: marked messages that are finished; see `Entry`.
            fence: of the owner; its window and its landmark go on record, too. The window makes
                no record due, nor does a landmark but the first one.
            closed: the queue is given back: write in any case, once `low` is committed (so that
                both offsets are the same) and before the unlock.
            refresh: write everything in any case: the broker deletes old records by their age.

        Raises:
            LockLost: another owner was confirmed, or the broker lost records. Commit nothing; the
                queue must be taken again.
            OrderlyError: it may or may not be written. Calling it again, with newer values or the
                same, is right.
        """
        forced = closed or refresh or self._lacks_landmark(fence) or self._looks_former(low)
        if not (forced or self.due(low, previous_low, runs, kept, crashes, sent_again=sent_again)):
            return
        content = self._content(
            low, previous_low, runs, kept, crashes, sent_again=sent_again, forced=forced
        )
        changes = None if refresh else self._changes_to(content)
        self._stale = True  # until it is known to be stored
        self._sure &= _parked_in(content)
        self._previous = yield from self._write(content, changes, fence, closed=closed)
        self._changes = 0 if changes is None else (self._changes or 0) + 1
        self._last, self._stale, self.closed = content, False, closed
        self._has_landmark = fence is not None and fence.landmark is not None
        self._window = () if fence is None else fence.window
        self._sure = _parked_in(content)

    def begin_generation(
        self, low: int, kept: ParkingState, window: tuple[int, ...] = ()
    ) -> Dialogue[None]:
        """Write that the source topic was recreated: nothing of the former one is finished here.

        Args:
            low: the minimum of the new one, which is committed.
            kept: the parked keys. They stay what they are, of the former generation.
            window: of the former generation: a broker that is killed now comes back with one.

        Raises:
            LockLost, OrderlyError: as `remember`. Calling it again is right.
        """
        if not self._begun_anew:
            self._begun_anew = True
            self.generation += 1
        yield from self.remember(low, low, (), kept, fence=Fence(low, window), refresh=True)

    def journal(self, offset: int | None) -> Dialogue[None]:
        """Write that a message is about to be handled which may end the process.

        Args:
            offset: of the message; None: the handler came back from it.

        Raises:
            OrderlyError: it may or may not be written.
        """
        at = yield AppendRecord(self._queue, encode_record(Trying(self._owner, self.token, offset)))
        self._end += at == self._end

    def _content(
        self,
        low: int,
        previous_low: int,
        runs: Runs,
        kept: ParkingState,
        crashes: Crashes,
        *,
        sent_again: tuple[SentAgain, ...],
        forced: bool = False,
    ) -> StateContent:
        """What the newest entry should say."""
        last, marks = self._last, sent_again[-MAX_SENT_AGAIN:]
        changed = (kept, crashes, marks) != (last.kept, last.crashes, last.sent_again)
        if runs or last.runs or changed or low < previous_low or forced or self._stale:
            return StateContent(low, previous_low, runs[:MAX_RUNS], kept, crashes, marks)
        if last.low == last.previous_low:
            return last  # with nothing ahead no entry is needed, and this one misleads nobody
        return StateContent(previous_low, previous_low, (), kept, crashes, marks)

    def _changes_to(self, content: StateContent) -> RecordPart | None:
        """What is new in `content`; None: everything is to be written."""
        if self._changes is None or self._changes >= MAX_CHANGES:
            return None
        return change(self._last, content)

    def _write(
        self,
        content: StateContent,
        changes: RecordPart | None,
        fence: Fence | None,
        *,
        closed: bool,
    ) -> Dialogue[int]:
        """Write the changes, or everything; returns the queue offset of the last entry."""
        parts = everything(content) if changes is None else [changes]
        mark = None if fence is None else fence.landmark
        landmark = None if mark is None else (mark.offset, mark.stored_at)
        previous = self._previous
        for chunk, part in enumerate(parts):
            self._number += 1
            entry = Entry(
                owner=self._owner,
                token=self.token,
                number=self._number,
                previous=previous,
                epoch=self.epoch,
                low=content.low,
                previous_low=content.previous_low,
                runs=part.runs,
                closed=closed,
                chunk=chunk,
                chunks=len(parts) if changes is None else 0,
                parked=part.parked,
                released=part.released,
                commands=content.kept.commands,
                deaths=content.crashes.deaths,
                suspects=content.crashes.suspects,
                trying=content.crashes.trying,
                window=() if fence is None else fence.window,
                landmark=landmark,
                generation=self.generation,
                token_time=self._token_time,
                sent_again=content.sent_again,
            )
            previous = yield from self._store(entry)
        return previous

    def _store(self, entry: Entry) -> Dialogue[int]:
        """Write one entry; returns its queue offset once it is sure to count."""
        offset: int = yield AppendRecord(self._queue, encode_record(entry))
        if offset != self._end:
            yield from self._check_gap(offset, entry)
        self._end = offset + 1
        return offset

    def _check_gap(self, offset: int, entry: Entry) -> Dialogue[None]:
        history = StateReader(self._queue, offset + 1)
        yield from history.read_from(entry.previous)
        if not (yield from history.counts(offset, entry)):
            raise LockLost(
                f"the record at {offset} of {self._queue} does not count: after the one at"
                f" {entry.previous} another owner was confirmed, or records were lost or damaged"
            )


def _parked_in(content: StateContent) -> frozenset[Key]:
    return frozenset(parked.key for parked in content.kept.parked)
