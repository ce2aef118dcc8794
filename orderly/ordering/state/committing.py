"""Committing an offset so that it can never overwrite somebody else's progress.

The broker stores any offset anybody sends. So the lock is renewed first (by the shell: one request
for all queues of a broker), then the stored offset is compared with what this owner wrote, then
what is finished ahead is remembered, and only then is the offset sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.errors import BrokerError, LockLost, OrderlyError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.calls import Dialogue, QueryOffset, SaveOffset, UnlockQueues
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
from orderly.ordering.generation import new_minimum
from orderly.ordering.parking.keys import NOTHING_KEPT, Kept
from orderly.ordering.state.fence import Fence
from orderly.ordering.state.memory import Memory
from orderly.ordering.state.runs import Runs


@dataclass(frozen=True, slots=True)
class Progress:
    """What is to be committed.

    Attributes:
        offset: the lowest unfinished one.
        finished: what is finished above it.
        moved: the offset was set, by the broker or by hand: it may be stored already.
        kept: the parked keys.
        crashes: owners that ended without closing, and what they were handling.
    """

    offset: int
    finished: Runs = ()
    moved: bool = False
    kept: Kept = NOTHING_KEPT
    crashes: Crashes = NO_CRASHES


class Recreated(LockLost):
    """The topic was made anew: what is held of the queue is of the former generation.

    Attributes:
        start: the minimum of the new one; it is committed, unless somebody has set another offset
            in it before.
    """

    def __init__(self, queue: MessageQueue, start: int) -> None:
        super().__init__(
            f"{queue} was deleted and made anew; the group goes on at {start}, its first message"
        )
        self.start = start


class NotOnRecord(OrderlyError):
    """The offset is saved; what is finished above it is not on record: no state topic exists."""

    def __init__(self, queue: MessageQueue) -> None:
        super().__init__(
            f"the state topic of {queue} does not exist: only the offset is saved, and what is"
            " finished above it comes again after a hand-over. It is made anew in the next round,"
            " if the consumer may make it (create_state_topics)"
        )


def begin_anew(
    queue: MessageQueue, fence: Fence, memory: Memory | None, kept: Kept = NOTHING_KEPT
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
        stored = yield QueryOffset(queue)
        if fence.explains(stored):
            yield SaveOffset(queue, minimum)
        if memory is not None:
            yield from memory.begin_generation(minimum, kept)
        raise Recreated(queue, minimum)


def commit(
    queue: MessageQueue,
    progress: Progress,
    fence: Fence,
    memory: Memory | None,
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
        refresh: write the state anew, before the broker deletes what it builds on by its age.

    Raises:
        Recreated: the topic was made anew; the new minimum is committed, and nothing else.
        LockLost: somebody else has changed the offset, or owns the state; nothing was written.
        NotOnRecord: the offset is saved; what is finished ahead is not on record.
        OrderlyError: a call failed; what is not acknowledged is to be tried again.
    """
    stored = yield QueryOffset(queue)
    if stored is None:
        yield from begin_anew(queue, fence, memory, progress.kept)
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
            yield from _remember(memory, progress, before, fence, refresh=refresh)
        except TopicNotFound as error:
            missing = error
    if progress.offset != stored:
        fence.sends(progress.offset)
        yield SaveOffset(queue, progress.offset)
    fence.note(progress.offset, now)
    if missing is not None:
        raise NotOnRecord(queue) from missing
    if memory is not None and closing and not memory.closed:
        yield from _remember(memory, progress, progress.offset, fence, closed=True)


def _remember(
    memory: Memory,
    progress: Progress,
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
        fence=fence,
        refresh=refresh,
        closed=closed,
    )


def hand_on(
    queue: MessageQueue,
    progress: Progress | None,
    fence: Fence,
    memory: Memory | None,
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
