"""Where a queue begins that nobody knows, and where one that was taken over goes on.

Lock first, then read the committed offset, then pull. The offset of the former owner is final by
then (`ownership.hand_on`: acknowledged before the unlock). A broker may have lost it, though, or
have one of another generation of the topic; then what the former owner knew decides. Only where
nobody knows anything is a start computed, and for a group that is known in the topic it is the
queue's first message (`new_group`).
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
    FirstLook,
    MinOffset,
    OffsetAtTime,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    SaveOffset,
)
from orderly.ordering.fence import Landmark, check_generation
from orderly.ordering.new_group import NewGroup
from orderly.protocol.state_record import SentAgain

# --- a queue without a committed offset: one table ------------------------------------------------
# Java: RebalancePushImpl.computePullFromWhereWithException. Java computes it twice, at acquisition
# and at the first pull, and skips what was sent in between (apache/rocketmq issue 10955); here it
# is computed once and committed before the first pull (see `find_start`). And Java asks for this
# queue alone: one that a known group has not consumed yet begins like one of a new group.


class Start(Enum):
    """Which offset of the queue it is."""

    MIN = "the lowest offset the broker still has"
    END = "the offset after the message that was the newest before the group began"
    TIME = "the first offset stored at or after a time"


_TABLE = {
    # (position, whether the group is new in the topic) -> start
    ("first", True): Start.MIN,
    ("last", True): Start.END,
    ("time", True): Start.TIME,
    ("first", False): Start.MIN,
    ("last", False): Start.MIN,
    ("time", False): Start.MIN,
}


def start_of(consume_from: str | datetime, *, new: bool) -> Start:
    """Return the table's cell.

    Args:
        consume_from: "first", "last" or a time, as `config.parse_consume_from` returns it.
        new: whether the group is new in the topic, and the topic had the queue when it began.
    """
    position = "time" if isinstance(consume_from, datetime) else consume_from
    return _TABLE[position, new]


def depends_on_group(consume_from: str | datetime, topic: str) -> bool:
    """Whether it matters for a topic's queues if the group is new there.

    In a `%RETRY%` topic it never is: what is in there is the group's own.
    """
    known, new = (start_of(consume_from, new=each) for each in (False, True))
    return known is not new and not is_retry_topic(topic)


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
        floor: where somebody set the offset while this process had it, or 0.
        book: the marked messages that it finished.
    """

    offset: int
    landmark: Landmark | None = None
    window: tuple[int, ...] = ()
    latest: bool = False
    anew: bool = False
    floor: int = 0
    book: tuple[SentAgain, ...] = ()

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
        passed_over: (minimum, start) if messages before `start` are left out, since the group is
            new in the topic and does not begin with the first one.
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

    @property
    def floor(self) -> int:
        """Below it nothing was handled, or is to count: somebody chose the start; 0: nobody did."""
        return self.start if self.reset or self.passed_over is not None else 0


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
        consume_from: where a new group begins.
        known: where the queue stood.

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
    new_group: NewGroup | None = None
    if depends_on_group(consume_from, queue.topic):
        new_group = yield FirstLook(queue)
    before = None if new_group is None else new_group.ends.get(queue)
    start = start_of(consume_from, new=before is not None)
    computed = minimum = yield MinOffset(queue)
    if start is Start.TIME:
        assert isinstance(consume_from, datetime)
        computed = yield OffsetAtTime(queue, consume_from)
    elif start is Start.END:
        assert before is not None
        computed = yield from _still_there(queue, before, minimum)
    kept = yield from _save(queue, computed)
    below, _ = yield from message_below(queue, kept)
    return StartPosition(kept, below, passed_over=(minimum, kept) if kept > minimum else None)


def _still_there(queue: MessageQueue, last: Peeked, minimum: int) -> Dialogue[int]:
    """Where the queue ended when `last` was its last message; its minimum if it is another one."""
    landmark = None if last.stored_at is None else Landmark(last.end - 1, last.stored_at)
    check = yield from check_generation(queue, landmark)
    return last.end if check.minimum is None else minimum


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
