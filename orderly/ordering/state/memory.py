"""What the owner of a queue puts on record, and when: as little and as small as recovery allows.

An entry holds what changed since the last one, or everything. Before it counts as written the owner
makes sure of what a reader will ask: whether anybody was confirmed between its last two entries.
"""

from __future__ import annotations

from collections.abc import Hashable

from orderly.errors import LockLost
from orderly.model import MessageQueue
from orderly.ordering.calls import AppendRecord, Dialogue
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
from orderly.ordering.parking.keys import NOTHING_KEPT, Kept, Key
from orderly.ordering.state.content import Part, Remembered, change, everything
from orderly.ordering.state.fence import Fence
from orderly.ordering.state.history import History
from orderly.ordering.state.runs import Runs
from orderly.protocol.state_record import MAX_RUNS, TOKEN_EPOCH, Entry, Trying, encode_record

_TOKEN_BITS = 22  # of a token: an offset; a larger one counts as a millisecond more
MAX_CHANGES = 16  # since everything was written: with a take-over's own they fit into one block


class Memory:
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
        found: Remembered,
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
        self._sure = frozenset() if stale else _keys(found)  # parked on record in any case
        self._number = 0
        self._changes: int | None = None  # since everything was written; None: never yet

    @property
    def fencing_token(self) -> int:
        """The token as programs are given it: a time, then the offset of the acquire record.

        It rises also where the state topic was made anew, or lost its last records, and offsets
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
        kept: Kept = NOTHING_KEPT,
        crashes: Crashes = NO_CRASHES,
        *,
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
        return self._content(low, previous_low, runs, kept, crashes) != self._last

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
        kept: Kept = NOTHING_KEPT,
        crashes: Crashes = NO_CRASHES,
        *,
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
            fence: of the owner; its window and its landmark go on record, too. The window makes
                no record due, nor does a landmark but the first one.
            closed: the queue is given back: write in any case, once `low` is committed (so that
                both offsets are the same) and before the unlock.
            refresh: write everything in any case: the broker deletes old records by their age.

        Raises:
            LockLost: another owner was confirmed, or the broker lost records. Commit nothing; the
                queue must be taken anew.
            OrderlyError: it may or may not be written. Calling it again, with newer values or the
                same, is right.
        """
        forced = closed or refresh or self._lacks_landmark(fence) or self._looks_former(low)
        if not (forced or self.due(low, previous_low, runs, kept, crashes)):
            return
        content = self._content(low, previous_low, runs, kept, crashes, forced=forced)
        changes = None if refresh else self._changes_to(content)
        self._stale = True  # until it is known to be stored
        self._sure &= _keys(content)
        self._previous = yield from self._write(content, changes, fence, closed=closed)
        self._changes = 0 if changes is None else (self._changes or 0) + 1
        self._last, self._stale, self.closed = content, False, closed
        self._has_landmark = fence is not None and fence.landmark is not None
        self._window = () if fence is None else fence.window
        self._sure = _keys(content)

    def begin_generation(
        self, low: int, kept: Kept, window: tuple[int, ...] = ()
    ) -> Dialogue[None]:
        """Write that the source topic was made anew: nothing of the former one is finished here.

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
        kept: Kept,
        crashes: Crashes,
        *,
        forced: bool = False,
    ) -> Remembered:
        """What the newest entry should say."""
        last = self._last
        changed = (kept, crashes) != (last.kept, last.crashes) or low < previous_low
        if runs or last.runs or changed or forced or self._stale:
            return Remembered(low, previous_low, runs[:MAX_RUNS], kept, crashes)
        if last.low == last.previous_low:
            return last  # with nothing ahead no entry is needed, and this one misleads nobody
        return Remembered(previous_low, previous_low, (), kept, crashes)

    def _changes_to(self, content: Remembered) -> Part | None:
        """What is new in `content`; None: everything is to be written."""
        if self._changes is None or self._changes >= MAX_CHANGES:
            return None
        return change(self._last, content)

    def _write(
        self, content: Remembered, changes: Part | None, fence: Fence | None, *, closed: bool
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
        history = History(self._queue, offset + 1)
        yield from history.read_from(entry.previous)
        if not (yield from history.counts(offset, entry)):
            raise LockLost(
                f"the record at {offset} of {self._queue} does not count: since the one at"
                f" {entry.previous} another owner was confirmed, or records were lost or damaged"
            )


def _keys(content: Remembered) -> frozenset[Key]:
    return frozenset(parked.key for parked in content.kept.parked)
