"""Where a queue begins that nobody knows, and where one that was taken over goes on.

Lock first, then read the committed offset, then pull. The offset of the former owner is final by
then (`ownership.hand_on`: acknowledged before the unlock). A broker may have lost it, though, or
have one of another generation of the topic; then what the former owner knew decides. Only where
nobody knows anything is a start computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.namespace import is_retry_topic
from orderly.ordering.broker_calls import (
    Dialogue,
    MaxOffset,
    MinOffset,
    OffsetAtTime,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    SaveOffset,
)
from orderly.ordering.fence import Landmark, check_generation

# --- a queue without a committed offset: one table ------------------------------------------------
# Java: RebalancePushImpl.computePullFromWhereWithException. Java computes it twice, at acquisition
# and at the first pull, and skips what was sent in between (apache/rocketmq issue 10955); here it
# is computed once and committed before the first pull (see `find_start`).


class Start(Enum):
    """Which offset of the queue to ask the broker for."""

    MIN = "the lowest offset the broker still has"
    MAX = "the offset after the newest message"
    TIME = "the first offset stored at or after a time"


_TABLE = {
    # (position, retry topic) -> start
    ("first", False): Start.MIN,
    ("first", True): Start.MIN,
    ("last", False): Start.MAX,
    ("last", True): Start.MIN,
    ("time", False): Start.TIME,
    ("time", True): Start.MAX,
}


def start_of(consume_from: str | datetime, topic: str) -> Start:
    """Return the table's cell.

    Args:
        consume_from: "first", "last" or a time, as `config.parse_consume_from` returns it.
        topic: a `%RETRY%` topic starts at 0 under "last": what is in there is ours.
    """
    position = "time" if isinstance(consume_from, datetime) else consume_from
    return _TABLE[position, is_retry_topic(topic)]


def for_later_queue(consume_from: str | datetime) -> str | datetime:
    """Return the position for a queue that appeared after the group began to consume its topic.

    "last" would skip what was sent between its appearance and our noticing it (apache/rocketmq
    issue 9307), so it begins with its first message.
    """
    return "first" if consume_from == "last" else consume_from


# --- where a queue that was taken over goes on ----------------------------------------------------


_SAVES = 3


@dataclass(frozen=True, slots=True)
class FormerPosition:
    """Where a queue stood, as its former owner knew: by key from the record, else in this process.

    Attributes:
        offset: everything below was finished.
        landmark: a message that the queue had; None: nothing could prove a new generation.
        window: offsets that the former owner sent shortly before (`Fence.window`).
        latest: no other owner came after; True of a record, which each owner writes.
        anew: the topic was recreated before; the window can have offsets of a former generation.
    """

    offset: int
    landmark: Landmark | None = None
    window: tuple[int, ...] = ()
    latest: bool = False
    anew: bool = False

    @property
    def sent(self) -> tuple[int, ...]:
        """What the former owner had committed, newest last: a killed broker may have any of it."""
        return (*self.window, self.offset)


@dataclass(frozen=True, slots=True)
class StartPosition:
    """Where a queue that was taken goes on.

    Attributes:
        start: the first offset to pull; it is committed.
        landmark: the message below it; if there is none (the log was cut), the one that the former
            owner knew, if that is still there; None: the first pull brings one.
        former: the former owner's position, if the topic was recreated since.
        forgotten: the broker had no offset, or one beyond its log; `start` is what was known.
        passed_over: (minimum, start) if messages before `start` are left out, since nobody knows
            of a former owner and the consumer does not begin with the first one.
        reset: an operator has set `start`; the broker said so, which it does only once.
        end: the offset after the newest message, if it came with `landmark`.
    """

    start: int
    landmark: Landmark | None = None
    former: int | None = None
    forgotten: bool = False
    passed_over: tuple[int, int] | None = None
    reset: bool = False
    end: int | None = None


def find_start(
    queue: MessageQueue, consume_from: str | datetime, known: FormerPosition | None = None
) -> Dialogue[StartPosition]:
    """Return where to go on; call only while the queue's lock is held.

    What is not stored already is committed before it is returned, so that a second computation can
    never skip what was sent in the meantime. And it is read back: of the first commits of a group
    to a topic that arrive together, a broker may acknowledge one and lose it
    (ConsumerOffsetManager.commitOffset makes the group's table without a lock).

    Args:
        queue: which one.
        consume_from: where a queue begins of which nothing is known.
        known: where it stood.

    Raises:
        OrderlyError: any failure but "none stored"; the caller must not pull then.
    """
    try:
        return (yield from _found(queue, consume_from, known, reset=False))
    except OffsetReset:  # the answer to the same question is another one now
        return (yield from _found(queue, consume_from, known, reset=True))


def _found(
    queue: MessageQueue,
    consume_from: str | datetime,
    known: FormerPosition | None,
    *,
    reset: bool,
) -> Dialogue[StartPosition]:
    stored: int | None = yield QueryOffset(queue)
    if known is not None:
        return (yield from _resumed(queue, stored, known, reset=reset))
    if stored is None:
        return (yield from _computed(queue, consume_from))
    below, _ = yield from message_below(queue, stored)
    return StartPosition(stored, below, reset=reset)


def _resumed(
    queue: MessageQueue, stored: int | None, known: FormerPosition, *, reset: bool
) -> Dialogue[StartPosition]:
    """Compare what the broker has with what is known: they may be of two generations.

    What an operator has set just now is of the present one.
    """
    below, end = yield from message_below(queue, stored or 0)
    beyond = stored is not None and end is not None and end < stored
    start, former = stored, None
    check = yield from check_generation(queue, known.landmark)
    if check.minimum is not None:
        former = known.offset
        # Another owner may have set it in the new generation. On record it would be known.
        outdated = beyond or stored in known.sent or known.latest
        if stored is None or (outdated and not reset):
            start = check.minimum
    elif stored is not None and not reset and _is_outdated(stored, known, beyond=beyond):
        start = None
    earlier = known.landmark if check.there else None
    if start is not None and start == stored:
        end = end if below else None
        return StartPosition(start, below or earlier, former, reset=reset, end=end)
    kept = yield from _save(queue, known.offset if start is None else start)
    below, end = yield from message_below(queue, kept)
    landmark = below or earlier
    return StartPosition(kept, landmark, former, former is None, end=end if below else None)


def _is_outdated(stored: int, known: FormerPosition, *, beyond: bool) -> bool:
    """Whether a killed broker may have brought an offset back that is of a former generation.

    One beyond the log is, or the log was cut. Within the log only one that the window has can be.
    """
    if beyond:
        return known.latest or stored in known.sent
    return known.anew and known.offset < stored and stored in known.window


def message_below(queue: MessageQueue, offset: int) -> Dialogue[tuple[Landmark | None, int | None]]:
    """Return the message right below an offset, and where the queue ends; None: not known."""
    if offset <= 0:
        return None, None
    peeked: Peeked = yield Peek(queue, offset - 1)
    landmark = None if peeked.stored_at is None else Landmark(offset - 1, peeked.stored_at)
    return landmark, peeked.end


def _computed(queue: MessageQueue, consume_from: str | datetime) -> Dialogue[StartPosition]:
    start = start_of(consume_from, queue.topic)
    minimum: int = yield MinOffset(queue)
    computed = minimum
    if start is Start.TIME:
        assert isinstance(consume_from, datetime)
        computed = yield OffsetAtTime(queue, consume_from)
    elif start is Start.MAX:
        computed = yield MaxOffset(queue)
    kept = yield from _save(queue, computed)
    below, _ = yield from message_below(queue, kept)
    return StartPosition(kept, below, passed_over=(minimum, kept) if kept > minimum else None)


def _save(queue: MessageQueue, offset: int) -> Dialogue[int]:
    """Commit a start and read it back; returns what the broker has then."""
    for _ in range(_SAVES):
        yield SaveOffset(queue, offset)
        kept = yield QueryOffset(queue)
        if kept is not None:
            return int(kept)
    raise OrderlyError(
        f"the broker acknowledged offset {offset} of {queue} {_SAVES} times but does not have it;"
        " look at the broker's log. The member tries the queue again"
    )
