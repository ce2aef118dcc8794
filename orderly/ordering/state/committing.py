"""Committing an offset so that it can never overwrite somebody else's progress.

The broker stores any offset anybody sends. So the lock is renewed first (by the shell: one request
for all queues of a broker), then the stored offset is compared with what this owner wrote, then
what is finished ahead is remembered, and only then is the offset sent.
"""

from __future__ import annotations

from dataclasses import dataclass

from orderly.errors import BrokerError, LockLost
from orderly.model import MessageQueue
from orderly.ordering.calls import Dialogue, QueryOffset, SaveOffset, UnlockQueues
from orderly.ordering.crashes.crashes import NO_CRASHES, Crashes
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


def commit(
    queue: MessageQueue,
    progress: Progress,
    fence: Fence,
    memory: Memory | None,
    *,
    closing: bool = False,
    refresh: bool = False,
) -> Dialogue[None]:
    """Compare, remember, save; call only right after the queue's lock was renewed.

    Args:
        queue: which one.
        progress: what to commit.
        fence: what we sent before; the new offset is noted there, too.
        memory: writes the state records; None: nothing is remembered (order by queue).
        closing: the owner gives the queue back, and says so in the state.
        refresh: write the state anew, before the broker deletes what it builds on by its age.

    Raises:
        LockLost: somebody else has changed the offset, or owns the state; nothing was written.
        OrderlyError: a call failed; what is not acknowledged is to be tried again.
    """
    stored = yield QueryOffset(queue)
    set_already = progress.moved and stored == progress.offset
    if not set_already and not fence.explains(stored):
        raise LockLost(
            f"the committed offset of {queue} is {stored}, which this member never wrote (its last"
            f" was {fence.written}): another member, or an operator, has changed it"
        )
    if memory is not None:
        # The answer to our newest save may have been lost. Any other offset that is not the one
        # acknowledged must not go on record: if it is a reset, it would look like a crash.
        before = stored if stored == fence.newest else fence.written
        yield from _remember(memory, progress, before, refresh=refresh)
    if progress.offset != stored:
        fence.sends(progress.offset)
        yield SaveOffset(queue, progress.offset)
    fence.note(progress.offset)
    if memory is not None and closing and not memory.closed:
        yield from _remember(memory, progress, progress.offset, closed=True)


def _remember(
    memory: Memory, progress: Progress, before: int, *, refresh: bool = False, closed: bool = False
) -> Dialogue[None]:
    """Put progress on record; `before` is the offset that the broker has stored."""
    yield from memory.remember(
        progress.offset,
        before,
        progress.finished,
        progress.kept,
        progress.crashes,
        refresh=refresh,
        closed=closed,
    )


def hand_on(
    queue: MessageQueue, progress: Progress | None, fence: Fence, memory: Memory | None
) -> Dialogue[BrokerError | LockLost | None]:
    """Commit what is left, then unlock; call only when no handler runs on the queue.

    An heir that is granted the lock reads our last offset. Java sends both one-way through
    different broker pools, and may unlock beside a running handler; here neither happens.

    Args:
        queue: which one.
        progress: what to commit; None: nothing is left.
        fence: as in `commit`.
        memory: as in `commit`.

    Returns:
        Why the offset was refused for good (the topic was deleted, somebody else changed it), or
        None. No waiting would help then, so the queue is unlocked all the same.

    Raises:
        OrderlyError: a failure that may pass. The queue is still locked: try again, so that the
            heir does not start from a stale offset.
    """
    refusal: BrokerError | LockLost | None = None
    if progress is not None:
        try:
            yield from commit(queue, progress, fence, memory, closing=True)
        except LockLost as error:
            refusal = error
        except BrokerError as error:
            if error.retriable:
                raise
            refusal = error
    yield UnlockQueues(queue.broker_name, (queue,))
    return refusal
