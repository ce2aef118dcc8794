"""Taking a queue over with what its former owners left on record.

The order of the steps is the fence: a record that gives the token, then the lock, then a record
that confirms it, then reading. Whoever confirmed last, and finds no higher token confirmed, is the
owner; what a former owner writes from then on does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from orderly.errors import NotAvailableYet
from orderly.model import MessageQueue
from orderly.ordering.calls import AppendRecord, Dialogue, LockQueues, QueryOffset
from orderly.ordering.handover import find_start
from orderly.ordering.state.history import BLOCK, History, State
from orderly.ordering.state.memory import Memory, Remembered
from orderly.ordering.state.runs import Runs
from orderly.protocol.state_record import Acquire, Confirm, encode_record

_BEYOND = 8  # records behind our own confirm that the first block can show: somebody was faster


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a new owner begins with.

    Attributes:
        start: the first offset to pull; everything below is finished.
        stored: the offset the broker has stored; `start` is above it if the former owner ended
            between its last record and its commit.
        finished: what is finished above `start` and must not be handled again.
        reset: somebody else set the broker's offset; what was finished ahead is discarded.
        unclean: the former owner did not close the queue.
        damaged: a record could not be read, so more may be repeated than otherwise.
        memory: writes the new owner's records; None if the queue has no state.
        token: rises with each owner of the queue; 0 if the queue has no state.
    """

    start: int
    stored: int
    finished: Runs = ()
    reset: bool = False
    unclean: bool = False
    damaged: bool = False
    memory: Memory | None = None
    token: int = 0


def take_over(
    queue: MessageQueue, state_queue: MessageQueue, client_id: str, consume_from: str | datetime
) -> Dialogue[Inheritance | None]:
    """Become the owner of a queue and read what the former owners left.

    Call it while the queue's lock is held. Whenever it does not return an Inheritance, give the
    lock back and begin anew later.

    Args:
        queue: which queue.
        state_queue: the queue of the state topic on the same broker with the same number.
        client_id: of this member, new at each start.
        consume_from: where a queue without a committed offset begins; see `find_start`.

    Returns:
        None: the lock is somebody else's by now, or another owner was confirmed meanwhile.

    Raises:
        NotAvailableYet: the records are a newer release's, or tell of parked keys.
        OrderlyError: any failure of a call; the queue must not be pulled.
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
    found, damaged = yield from history.newest(before=confirmed)
    _check_parked(queue, found)
    takeovers = history.confirms(found.offset if found else -1, confirmed)
    resumed, stored = yield from _resume(queue, found, takeovers, consume_from)
    memory = Memory(
        state_queue,
        client_id,
        token,
        confirm=confirmed,
        epoch=(found.entry.epoch if found else 0) + takeovers + 1,
        found=_remembered(found),
        stale=damaged,
    )
    if resumed.reset:  # on record at once: what it discards must never come back
        yield from memory.remember(resumed.start, resumed.start, (), refresh=True)
    unclean = takeovers > 0 or (found is not None and not found.entry.closed)
    return Inheritance(
        resumed.start, stored, resumed.finished, resumed.reset, unclean, damaged, memory, token
    )


@dataclass(frozen=True, slots=True)
class Resumed:
    """Where to go on: `start`, what is finished above it, and whether the offset was reset."""

    start: int
    finished: Runs
    reset: bool


def resume(found: State | None, stored: int, takeovers: int) -> Resumed:
    """Compare the newest record with the committed offset.

    The record was written before its `low` was committed, so the broker has that or the one
    before, unless somebody else set it. With nothing finished ahead nothing is written, so an
    offset further on is then plain progress.

    Args:
        found: the newest state, if there is one.
        stored: the committed offset.
        takeovers: confirmed since, by owners who finished nothing ahead.
    """
    if found is None:
        return Resumed(stored, (), reset=False)
    entry = found.entry
    if stored in (entry.low, entry.previous_low):
        return Resumed(entry.low, found.runs, reset=False)
    progress = stored > entry.low and not found.runs and (takeovers > 0 or not entry.closed)
    return Resumed(stored, (), reset=not progress)


def _resume(
    queue: MessageQueue, found: State | None, takeovers: int, consume_from: str | datetime
) -> Dialogue[tuple[Resumed, int]]:
    """Where to go on, and the committed offset; without one a start is committed first."""
    stored = yield QueryOffset(queue)
    if stored is not None:
        return resume(found, stored, takeovers), stored
    start = yield from find_start(queue, consume_from)
    return Resumed(start, (), reset=found is not None), start


def _remembered(found: State | None) -> Remembered:
    if found is None:
        return Remembered()
    return Remembered(found.entry.low, found.entry.previous_low, found.runs)


def _check_parked(queue: MessageQueue, found: State | None) -> None:
    if found is not None and found.parked:
        raise NotAvailableYet(
            f"{len(found.parked)} keys of {queue} are parked, which this release cannot honour:"
            " have them released by the release that parked them, or upgrade this member"
        )
