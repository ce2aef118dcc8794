"""Taking a queue over with what its former owners left on record.

The order of the steps is the fence: a record that gives the token, then the lock, then a record
that confirms it, then reading. Whoever confirmed last, and finds no higher token confirmed, is the
owner; what a former owner writes from then on does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from orderly.model import MessageQueue
from orderly.ordering.calls import AppendRecord, Dialogue, LockQueues, MaxOffset
from orderly.ordering.crashes.conclusion import conclude, unclean_ends
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
from orderly.ordering.generation import Landmark
from orderly.ordering.handover import Begin, Known, find_start
from orderly.ordering.parking.keys import NOTHING_KEPT, Kept
from orderly.ordering.parking.rebuild import rebuild
from orderly.ordering.state.content import Remembered
from orderly.ordering.state.fence import Fence
from orderly.ordering.state.history import BLOCK, History, State
from orderly.ordering.state.memory import Memory
from orderly.ordering.state.runs import Runs, difference
from orderly.protocol.state_record import Acquire, Confirm, Record, encode_record

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
        end: after an unclean end, the offset after the newest message; else `start`.
    """

    start: int
    fence: Fence
    begin: Begin
    finished: Runs = ()
    reset: bool = False
    unclean: bool = False
    damaged: bool = False
    memory: Memory | None = None
    kept: Kept = NOTHING_KEPT
    rebuilt: bool = False
    crashes: Crashes = NO_CRASHES
    end: int = 0


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
    return an Inheritance, give the lock back and begin anew later.

    Args:
        queue: which queue.
        state_queue: the queue of the state topic on the same broker with the same number.
        park_queue: the one of the park topic.
        client_id: of this member, new at each start.
        consume_from: where a queue without a committed offset begins; see `find_start`.
        now: seconds, on the clock of the fence.

    Returns:
        None: the lock is somebody else's by now, or another owner was confirmed meanwhile.

    Raises:
        NotAvailableYet: the records are a newer release's.
        OrderlyError: any failure of a call, or it cannot be known which keys are parked; the queue
            must not be pulled.
    """
    fenced = yield from _fence(queue, state_queue, client_id)
    if fenced is None:
        return None
    token, confirmed, history = fenced
    found, damaged = yield from history.newest(before=confirmed)
    rebuilt = found is None or damaged
    kept = yield from _kept(found, queue, park_queue, rebuilt=rebuilt)
    takeovers = history.confirms(found.offset if found else -1, confirmed)
    known = None if found is None else _known(found)
    begin = yield from find_start(queue, consume_from, known)
    resumed = resume(found, begin, takeovers)
    later = history.between(found.offset if found else -1, confirmed)
    crashes = _crashes(found, later, client_id, begin, resumed)
    end: int = (yield MaxOffset(queue)) if crashes.deaths else resumed.start
    recreated = begin.former is not None
    # Of a former generation, too: a broker that is killed right after it deleted the topic, or
    # right after our start was committed, comes back with them.
    sent = () if known is None else known.sent
    fence = Fence(begin.start, sent, begin.landmark, now)
    memory = Memory(
        state_queue,
        client_id,
        token,
        confirm=confirmed,
        epoch=(found.entry.epoch if found else 0) + takeovers + 1,
        found=_remembered(found),
        generation=(found.entry.generation if found else 0) + recreated,
        landmark=found is not None and found.entry.landmark is not None,
        window=found.entry.window if found else (),
        token_time=max(found.entry.token_time if found else 0, history.stored_at),
        stale=damaged,
    )
    unclean = takeovers > 0 or (found is not None and not found.entry.closed)
    # On record at once: a start that a broker may forget again, what a reset discards and must
    # never come back, what was worked out and every later owner must know, and from where on there
    # was no progress.
    if found is None or resumed.reset or unclean or damaged or recreated:
        yield from memory.remember(
            resumed.start,
            begin.start,
            resumed.finished,
            kept,
            crashes,
            fence=fence,
            refresh=True,
        )
    return Inheritance(
        resumed.start, fence, begin, resumed.finished, resumed.reset, unclean, damaged, memory,
        kept, rebuilt, crashes, end,
    )  # fmt: skip


def _fence(
    queue: MessageQueue, state_queue: MessageQueue, client_id: str
) -> Dialogue[tuple[int, int, History] | None]:
    """Get a token and have it confirmed; from then on what former owners write does not count.

    Returns:
        The token, the offset of the confirm record and the history up to it; None: the lock is
        somebody else's, or another owner was confirmed.
    """
    token: int = yield AppendRecord(state_queue, encode_record(Acquire(client_id)))
    granted = yield LockQueues(queue.broker_name, (queue,))
    if queue not in granted:
        return None
    confirm = Confirm(client_id, token)
    confirmed: int = yield AppendRecord(state_queue, encode_record(confirm))
    history = History(state_queue, confirmed + 1)
    yield from history.read_from(min(token, confirmed + 1 - BLOCK + _BEYOND))
    if history.at(confirmed) != confirm or history.fences(token):
        return None
    return token, confirmed, history


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where to go on: `start`, what is finished above it, and whether the offset was reset."""

    start: int
    finished: Runs
    reset: bool


def resume(found: State | None, begin: Begin, takeovers: int) -> Resumed:
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
    if stored <= end < entry.low:
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


def _known(found: State) -> Known:
    """What a record says of where the queue stood."""
    entry = found.entry
    landmark = None if entry.landmark is None else Landmark(*entry.landmark)
    window = (*entry.window, entry.previous_low)
    return Known(entry.low, landmark, window, latest=True, anew=entry.generation > 0)


def _crashes(
    found: State | None,
    later: Iterable[Record | None],
    client_id: str,
    begin: Begin,
    resumed: Resumed,
) -> Crashes:
    """What follows from how the former owners ended; after a reset, or in a new topic, nothing."""
    if resumed.reset or begin.former is not None:
        return NO_CRASHES
    newest = None if found is None else found.entry
    ends = unclean_ends(newest, later, client_id)
    return conclude(newest, ends, resumed.start, resumed.finished)


def _kept(
    found: State | None, queue: MessageQueue, park_queue: MessageQueue, *, rebuilt: bool
) -> Dialogue[Kept]:
    """The parked keys: as they are on record, or worked out again.

    The park queue does not tell generations. Keys that no record tells of are of the newest one.
    """
    if found is not None and not rebuilt:
        return found.kept
    kept = (yield from rebuild(park_queue, queue)).kept
    if found is None:
        return kept
    told = {each.key: each.generation for each in found.kept.parked}
    newest = found.entry.generation
    parked = (replace(each, generation=told.get(each.key, newest)) for each in kept.parked)
    return replace(kept, parked=tuple(parked))


def _remembered(found: State | None) -> Remembered:
    if found is None:
        return Remembered()
    entry = found.entry
    crashes = Crashes(entry.deaths, entry.suspects, entry.trying)
    return Remembered(entry.low, entry.previous_low, found.runs, found.kept, crashes)
