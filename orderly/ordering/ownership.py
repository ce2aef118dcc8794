"""The ownership of a queue as dialogues: taken over, committed, handed on.

The order of the steps is the fence: a record that gives the token, then the lock, then a record
that confirms it, then reading. Whoever confirmed last, and finds no higher token confirmed, is
the owner; what a former owner writes from then on does not count.

A commit never overwrites somebody else's progress. The broker stores any offset anybody sends. So
the lock is renewed first (by the shell: one request for all queues of a broker), then the stored
offset is compared with what this owner wrote, then what is finished ahead is put on record, and
only then is the offset sent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from orderly.errors import BrokerError, LockLost, OrderlyError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    AppendRecord,
    Dialogue,
    LockQueues,
    MaxOffset,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
)
from orderly.ordering.crashes import NO_CRASHES, Crashes, conclude, unclean_ends
from orderly.ordering.fence import Fence, Landmark, new_minimum
from orderly.ordering.offset_runs import Runs, difference
from orderly.ordering.parking import NOTHING_PARKED, ParkingState, rebuild
from orderly.ordering.start import FormerPosition, StartPosition, find_start
from orderly.ordering.state_records import (
    BLOCK,
    RecordedState,
    StateContent,
    StateReader,
    StateWriter,
)
from orderly.protocol.state_record import Acquire, Confirm, Record, SentAgain, encode_record

# --- taking a queue over with what its former owners left on record -------------------------------


_NEVER = 1 << 63  # offsets are below it
_BEYOND = 8  # records behind our own confirm that the first block can show: somebody was faster


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a new owner begins with.

    Attributes:
        start: the first offset to pull; everything below is finished.
        fence: with the offset the broker has stored; `start` is above it if the former owner ended
            between its last record and its commit.
        begin: how the stored offset was come by.
        finished: what is finished above `start` and must not be handled again.
        reset: somebody else set the broker's offset; what was finished ahead is discarded.
        unclean: the former owner did not close the queue.
        damaged: a record could not be read, so more may be repeated than otherwise.
        memory: writes the new owner's records; None if the queue has no state.
        kept: the parked keys; also after a reset.
        rebuilt: they were worked out from the park queue, for want of a record.
        crashes: owners that ended without closing, and what they were handling.
        sent_again: marked messages that former owners finished.
        end: after an unclean end, the offset after the newest message; else `start`.
    """

    start: int
    fence: Fence
    begin: StartPosition
    finished: Runs = ()
    reset: bool = False
    unclean: bool = False
    damaged: bool = False
    memory: StateWriter | None = None
    kept: ParkingState = NOTHING_PARKED
    rebuilt: bool = False
    crashes: Crashes = NO_CRASHES
    end: int = 0
    sent_again: tuple[SentAgain, ...] = ()

    @property
    def floor(self) -> int:
        """Below it nothing was handled, or is to count: somebody chose the start; 0: nobody did."""
        return self.start if self.reset else self.begin.floor


def take_over(
    queue: MessageQueue,
    state_queue: MessageQueue,
    park_queue: MessageQueue,
    client_id: str,
    consume_from: str | datetime,
    *,
    now: float = 0.0,
) -> Dialogue[Inheritance | None]:
    """Become the owner of a queue and read what the former owners left.

    Call it while the queue's lock is held; each LockQueues renews that. Whenever it does not
    return an Inheritance, give the lock back and start over later.

    Args:
        queue: which queue.
        state_queue: the queue of the state topic on the same broker with the same number.
        park_queue: the one of the park topic.
        client_id: of this member, new at each start.
        consume_from: where a new group begins; see `find_start`.
        now: seconds, on the clock of the fence.

    Returns:
        None: the lock is somebody else's by now, or another owner was confirmed meanwhile.

    Raises:
        NotAvailableYet: the records are a newer release's.
        OrderlyError: any failure of a call, or it cannot be known which keys are parked; the queue
            must not be pulled.
    """
    ours = yield from _fence(queue, state_queue, client_id)
    if ours is None:
        return None
    history = ours.history
    found, damaged = yield from history.newest(before=ours.confirmed)
    last = -1 if found is None else found.offset
    rebuilt = found is None or damaged
    kept = yield from _kept(found, queue, park_queue, rebuilt=rebuilt)
    takeovers = history.confirms(last, ours.confirmed)
    known = None if found is None else _known(found)
    begin = yield from find_start(queue, consume_from, known)
    resumed = resume(found, begin, takeovers)
    later = history.between(last, ours.confirmed)
    crashes = _crashes(found, later, client_id, begin, resumed)
    end: int = (yield MaxOffset(queue)) if crashes.deaths else resumed.start
    recreated = begin.former is not None
    # Of a former generation, too: a broker that is killed right after it deleted the topic, or
    # right after our start was committed, comes back with them.
    sent = () if known is None else known.sent
    fence = Fence(begin.start, sent, begin.landmark, now)
    memory = _writer(
        state_queue, ours, client_id, found, takeovers, recreated=recreated, damaged=damaged
    )
    marks = () if found is None or resumed.reset or recreated else found.entry.sent_again
    unclean = takeovers > 0 or (found is not None and not found.entry.closed)
    # On record at once: a start that a broker may forget again, what a reset discards and must
    # never come back, what was worked out and every later owner must know, and from where on there
    # was no progress.
    if found is None or resumed.reset or unclean or damaged or recreated:
        progress = CommitProgress(
            resumed.start, resumed.finished, kept=kept, crashes=crashes, sent_again=marks
        )
        yield from _record(memory, progress, begin.start, fence, refresh=True)
    return Inheritance(
        resumed.start, fence, begin, resumed.finished, resumed.reset, unclean, damaged, memory,
        kept, rebuilt, crashes, end, marks,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Confirmed:
    """We own the queue: our token, the offset of our confirm record, and the records up to it."""

    token: int
    confirmed: int
    history: StateReader


def _fence(
    queue: MessageQueue, state_queue: MessageQueue, client_id: str
) -> Dialogue[_Confirmed | None]:
    """Get a token and have it confirmed; from then on what former owners write does not count.

    Returns None if the lock is somebody else's, or if another owner was confirmed.
    """
    token: int = yield AppendRecord(state_queue, encode_record(Acquire(client_id)))
    granted = yield LockQueues(queue.broker_name, (queue,))
    if queue not in granted:
        return None
    confirm = Confirm(client_id, token)
    confirmed: int = yield AppendRecord(state_queue, encode_record(confirm))
    history = StateReader(state_queue, confirmed + 1)
    yield from history.read_from(min(token, confirmed + 1 - BLOCK + _BEYOND))
    if history.at(confirmed) != confirm or history.fences(token):
        return None
    return _Confirmed(token, confirmed, history)


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where to go on: `start`, what is finished above it, and whether the offset was reset."""

    start: int
    finished: Runs
    reset: bool


def resume(found: RecordedState | None, begin: StartPosition, takeovers: int) -> Resumed:
    """Compare the newest record with the committed offset.

    The record was written before its `low` was committed, so the broker has that, the one before,
    or if it was killed one that was sent some seconds earlier (`Entry.window`), unless somebody
    else set it. With nothing finished ahead nothing is written, so an offset further on is then
    plain progress.

    Args:
        found: the newest state, if there is one.
        begin: where the queue goes on by its committed offset.
        takeovers: confirmed since, by owners who finished nothing ahead.
    """
    stored = begin.start
    if found is None or begin.former is not None:  # of a former generation nothing counts
        return Resumed(stored, (), reset=False)
    entry = found.entry
    # What is not stored is not finished: the log was cut, or the record is forged.
    end = _NEVER if begin.end is None else begin.end
    if begin.reset or stored <= end < entry.low:
        return Resumed(stored, (), reset=True)
    runs = difference(found.runs, ((end, _NEVER),)) if end < _NEVER else found.runs
    if stored in (entry.low, entry.previous_low):
        return Resumed(entry.low, runs, reset=False)
    if stored in entry.window:
        if found.runs:
            return Resumed(entry.low, runs, reset=False)
        return Resumed(stored, (), reset=False)  # whoever set it: there is nothing to discard
    progress = stored > entry.low and not found.runs and (takeovers > 0 or not entry.closed)
    return Resumed(stored, (), reset=not progress)


def _known(found: RecordedState) -> FormerPosition:
    """What a record says of where the queue stood."""
    entry = found.entry
    landmark = None if entry.landmark is None else Landmark(*entry.landmark)
    window = (*entry.window, entry.previous_low)
    return FormerPosition(entry.low, landmark, window, latest=True, anew=entry.generation > 0)


def _crashes(
    found: RecordedState | None,
    later: Iterable[Record | None],
    client_id: str,
    begin: StartPosition,
    resumed: Resumed,
) -> Crashes:
    """What follows from how the former owners ended; after a reset, or in a new topic, nothing."""
    if resumed.reset or begin.former is not None:
        return NO_CRASHES
    newest = None if found is None else found.entry
    ends = unclean_ends(newest, later, client_id)
    return conclude(newest, ends, resumed.start, resumed.finished)


def _kept(
    found: RecordedState | None, queue: MessageQueue, park_queue: MessageQueue, *, rebuilt: bool
) -> Dialogue[ParkingState]:
    """The parked keys: as they are on record, or worked out again.

    The park queue does not name generations. Keys without a record are of the newest one.
    """
    if found is not None and not rebuilt:
        return found.kept
    kept = (yield from rebuild(park_queue, queue)).kept
    if found is None:
        return kept
    recorded = {each.key: each.generation for each in found.kept.parked}
    newest = found.entry.generation
    parked = (replace(each, generation=recorded.get(each.key, newest)) for each in kept.parked)
    return replace(kept, parked=tuple(parked))


def _writer(
    state_queue: MessageQueue,
    ours: _Confirmed,
    client_id: str,
    found: RecordedState | None,
    takeovers: int,
    *,
    recreated: bool,
    damaged: bool,
) -> StateWriter:
    """What writes our records, as the continuation of the newest one."""
    entry = None if found is None else found.entry
    return StateWriter(
        state_queue,
        client_id,
        ours.token,
        confirm=ours.confirmed,
        epoch=(entry.epoch if entry else 0) + takeovers + 1,
        found=_remembered(found),
        generation=(entry.generation if entry else 0) + recreated,
        landmark=entry is not None and entry.landmark is not None,
        window=entry.window if entry else (),
        token_time=max(entry.token_time if entry else 0, ours.history.stored_at),
        stale=damaged,
    )


def _remembered(found: RecordedState | None) -> StateContent:
    if found is None:
        return StateContent()
    entry = found.entry
    crashes = Crashes(entry.deaths, entry.suspects, entry.trying)
    return StateContent(
        entry.low, entry.previous_low, found.runs, found.kept, crashes, entry.sent_again
    )


# --- committing an offset, and handing the queue on -----------------------------------------------


@dataclass(frozen=True, slots=True)
class CommitProgress:
    """What is to be committed.

    Attributes:
        offset: the lowest unfinished one.
        finished: what is finished above it.
        moved: the offset was set, by the broker or by hand: it may be stored already.
        kept: the parked keys.
        crashes: owners that ended without closing, and what they were handling.
        sent_again: marked messages that are finished.
    """

    offset: int
    finished: Runs = ()
    moved: bool = False
    kept: ParkingState = NOTHING_PARKED
    crashes: Crashes = NO_CRASHES
    sent_again: tuple[SentAgain, ...] = ()


class Recreated(LockLost):
    """The topic was recreated: the messages held here are of the former generation.

    Attributes:
        start: the minimum of the new one; it is committed, unless somebody has set another offset
            in it before.
    """

    def __init__(self, queue: MessageQueue, start: int) -> None:
        super().__init__(f"{queue} was recreated; the group goes on at its first message, {start}")
        self.start = start


class NotOnRecord(OrderlyError):
    """The offset is saved; what is finished above it is not on record: no state topic exists."""

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"the state topic of {queue} does not exist: only the offset is saved, and messages"
            " finished above it come again after a hand-over. The next round creates the topic, if"
            " the consumer may (create_state_topics)"
        )


def check_generation(
    queue: MessageQueue,
    fence: Fence,
    memory: StateWriter | None,
    kept: ParkingState = NOTHING_PARKED,
) -> Dialogue[None]:
    """Find out whether a queue is of a new generation; call only while its lock is held.

    Its minimum is committed then, so that whoever takes the queue next goes on there; unless
    somebody has set an offset in the new generation before. By key it is on record, too.

    Args:
        queue: which one.
        fence: of its owner.
        memory: writes the state records; None: by queue.
        kept: the parked keys.

    Raises:
        Recreated: it is.
        OrderlyError: that cannot be known now; ask again before anything is committed or pulled.
    """
    minimum = yield from new_minimum(queue, fence.landmark)
    if minimum is not None:
        fence.over = True
        stored = yield QueryOffset(queue)
        if fence.explains(stored):
            yield SaveOffset(queue, minimum)
        if memory is not None:
            with contextlib.suppress(TopicNotFound):  # then no record contradicts the offset
                yield from memory.begin_generation(minimum, kept, fence.window)
        raise Recreated(queue, minimum)
    if fence.over:
        raise LockLost(f"{queue} was deleted and created again; this member takes it again")


def commit(
    queue: MessageQueue,
    progress: CommitProgress,
    fence: Fence,
    memory: StateWriter | None,
    *,
    now: float,
    closing: bool = False,
    refresh: bool = False,
) -> Dialogue[None]:
    """Compare, remember, save; call only right after the queue's lock was renewed.

    An offset that vanished was deleted with its topic, or forgotten by a broker that was killed.
    Where the state topic does not exist there is no record that the offset could contradict, so it
    is saved without one: what is finished ahead may then be repeated, and nothing is lost.

    Args:
        queue: which one.
        progress: what to commit.
        fence: what we sent before; the new offset is noted there, too.
        memory: writes the state records; None: nothing is remembered (order by queue).
        now: seconds, on the clock of the fence.
        closing: the owner gives the queue back, and says so in the state.
        refresh: write the state again before the broker deletes the records it builds on.

    Raises:
        Recreated: the topic was recreated; the new minimum is committed, and nothing else.
        LockLost: somebody else has changed the offset, or owns the state; nothing was written.
        NotOnRecord: the offset is saved; what is finished ahead is not on record.
        OrderlyError: a call failed; what is not acknowledged is to be tried again.
    """
    stored = yield QueryOffset(queue)
    if stored is None or fence.over:  # it failed before it was on record
        yield from check_generation(queue, fence, memory, progress.kept)
    set_already = progress.moved and stored == progress.offset
    if not set_already and not fence.explains(stored):
        raise LockLost(
            f"the committed offset of {queue} is {stored}, which this member never wrote (its last"
            f" was {fence.written}): another member, or an operator, has changed it"
        )
    missing: TopicNotFound | None = None
    if memory is not None:
        # The answer to our newest save may have been lost. Any other offset that is not the one
        # acknowledged must not go on record: if it is a reset, it would look like a crash.
        before = stored if stored == fence.newest else fence.written
        try:
            yield from _record(memory, progress, before, fence, refresh=refresh)
        except TopicNotFound as error:
            missing = error
    if progress.offset != stored:
        fence.sends(progress.offset)
        yield SaveOffset(queue, progress.offset)
    fence.note(progress.offset, now)
    if missing is not None:
        raise NotOnRecord(queue) from missing
    if memory is not None and closing and not memory.closed:
        yield from _record(memory, progress, progress.offset, fence, closed=True)


def _record(
    memory: StateWriter,
    progress: CommitProgress,
    before: int,
    fence: Fence,
    *,
    refresh: bool = False,
    closed: bool = False,
) -> Dialogue[None]:
    """Put progress on record; `before` is the offset that the broker has stored."""
    yield from memory.remember(
        progress.offset,
        before,
        progress.finished,
        progress.kept,
        progress.crashes,
        sent_again=progress.sent_again,
        fence=fence,
        refresh=refresh,
        closed=closed,
    )


def hand_on(
    queue: MessageQueue,
    progress: CommitProgress | None,
    fence: Fence,
    memory: StateWriter | None,
    *,
    now: float,
) -> Dialogue[BrokerError | LockLost | NotOnRecord | None]:
    """Commit what is left, then unlock; call only when no handler runs on the queue.

    An heir that is granted the lock reads our last offset. Java sends both one-way through
    different broker pools, and may unlock beside a running handler; here neither happens.

    Args:
        queue: which one.
        progress: what to commit; None: nothing is left.
        fence: as in `commit`.
        memory: as in `commit`.
        now: as in `commit`.

    Returns:
        Why the offset, or the record, was refused for good (a topic was deleted, somebody else
        changed the offset), or None. No waiting would help, so the queue is unlocked all the same.

    Raises:
        OrderlyError: a failure that may pass. The queue is still locked: try again, so that the
            heir does not start from a stale offset.
    """
    refusal: BrokerError | LockLost | NotOnRecord | None = None
    if progress is not None:
        try:
            yield from commit(queue, progress, fence, memory, now=now, closing=True)
        except (LockLost, NotOnRecord) as error:
            refusal = error
        except BrokerError as error:
            if error.retriable:
                raise
            refusal = error
    yield UnlockQueues(queue.broker_name, (queue,))
    return refusal
