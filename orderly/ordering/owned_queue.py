"""One queue that this consumer holds: lock, messages, offset and the right to run, in one place.

Every rule that keeps the order is a method here: a message is handed out only under a valid lease,
one run at a time, and the offset moves only over what is finished while the queue is ours.

Life: held -> (drop) leaving -> idle -> released by the shell. A dropped queue comes back only as a
new OwnedQueue, after its lock and its offset have been asked for anew; a cache that outlived a lost
lock is never used (Java keeps it and delivers what others may have passed).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum

from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.lease import Lease
from orderly.ordering.process_queue import ProcessQueue
from orderly.ordering.results import Disposition

PULL_IDLE = 120.0  # seconds without a pull that should be one (Java: ProcessQueue.isPullExpired)


class Drop(Enum):
    """Why a queue is given up."""

    REVOKED = "given to another member, or unsubscribed"
    LOST = "the broker's lock was lost, or not renewed in time"
    RESUBSCRIBED = "the subscription changed; it is taken again with the new one"
    OFFSET_ILLEGAL = "the broker no longer has the offset, or it was reset"
    MOVED = "the offset was set by hand"
    STALLED = "it was not pulled for two minutes"
    CLOSING = "the consumer is closing"


class Gate(Enum):
    """Whether to pull now; what is not OPEN says why."""

    OPEN = "pull"
    DROPPED = "the queue is being given up"
    NOT_LOCKED = "the lease ran out"
    PAUSED = "paused by the user"
    BUSY = "a pull is under way"
    FULL = "enough is cached; consuming reopens the gate"


class OwnedQueue:
    """A held queue. Not thread-safe: the shell's lock is around every call.

    Args:
        queue: which one.
        start: offset of the first message to pull, from `handover.find_start`.
        lease: the lock, just granted.
        max_messages, max_bytes: cached messages and bytes at which the pull gate closes.
        paused: whether it begins paused.
    """

    def __init__(
        self,
        queue: MessageQueue,
        start: int,
        lease: Lease,
        *,
        max_messages: int,
        max_bytes: int,
        paused: bool = False,
    ) -> None:
        self.queue = queue
        self.lease = lease
        self.messages = ProcessQueue()
        self.next_pull = start
        self.offset = start
        self.dropped: Drop | None = None
        self.restarted = False
        self.paused = paused
        self.handling_since: float | None = None
        self.handled_at: float | None = None
        self.suspended_until: float | None = None
        self.pulled_at = lease.renewed_at
        self.pulling = False
        self.throttled = False
        self._end: int | None = None
        self._saved = start
        self._running = False
        self.limit(max_messages, max_bytes)

    def limit(self, max_messages: int, max_bytes: int) -> None:
        """Set the cached messages and bytes at which the pull gate closes."""
        self._max_messages = max_messages
        self._max_bytes = max_bytes

    # --- leaving -------------------------------------------------------------------------------

    def drop(self, reason: Drop) -> bool:
        """Stop handing out; returns whether this changed anything.

        Losing the lock outranks every other reason: nothing may be saved after it.
        """
        if reason is Drop.LOST:
            self.lease.lose()
        if self.dropped is None or (reason is Drop.LOST and self.dropped is not Drop.LOST):
            self.dropped = reason
            return True
        return False

    @property
    def idle(self) -> bool:
        """True if no handler has a message of this queue."""
        return self.handling_since is None

    def keeps_lock(self, now: float) -> bool:
        """True if the lock is ours: also while a dropped queue's handler still runs.

        A lease that was not renewed in time is lost, whoever notices first.
        """
        if not self.lease.valid(now):
            self.drop(Drop.LOST)
        return self.dropped is not Drop.LOST

    # --- pulling -------------------------------------------------------------------------------

    def pull_gate(self, now: float) -> Gate:
        """Ask to pull; OPEN marks the pull as under way, until `pulled` or `pull_failed`."""
        gate = self._gate(now)
        if gate is Gate.OPEN:
            self.pulling, self.throttled, self.pulled_at = True, False, now
        return gate

    def _gate(self, now: float) -> Gate:
        if self.dropped is not None:
            return Gate.DROPPED
        if not self.keeps_lock(now):
            return Gate.NOT_LOCKED
        if self.paused:
            return Gate.PAUSED
        if self.pulling:
            return Gate.BUSY
        if self._above(1.0):
            self.throttled = True
            return Gate.FULL
        return Gate.OPEN

    @property
    def wants_pull(self) -> bool:
        """True once a queue whose gate was FULL has been worked down to half.

        Or has nothing left to hand out: what a manual commit keeps in hand must not stop it.
        """
        limit = 0.5 if self.messages.pending else 1.0
        return self.throttled and not self._above(limit)

    @property
    def stuck_full(self) -> bool:
        """True if all that may be cached is in hand, uncommitted: only a commit helps."""
        return self.throttled and not self.messages.pending and self._above(1.0)

    def pull_stalled(self, now: float) -> bool:
        """True if the queue should have been pulled for two minutes and was not.

        A defence against a defect, in a client library or a broker: the queue is taken anew.
        """
        expected = self.dropped is None and not self.paused and not self.throttled
        return expected and now - self.pulled_at > PULL_IDLE

    def _above(self, share: float) -> bool:
        held = self.messages
        return held.count > self._max_messages * share or held.size > self._max_bytes * share

    @property
    def at_end(self) -> bool:
        """True if the last pull reached the end of the queue and all of it is finished."""
        return self._end is not None and self.offset >= self._end

    def pulled(
        self, messages: Sequence[ReceivedMessage], next_offset: int, end: int | None = None
    ) -> bool:
        """Take in a pull's reply; returns whether the shell shall request a run.

        Args:
            messages: what passed the filter, in offset order.
            next_offset: where the next pull starts. Offsets below it that brought no message were
                filtered and count as done once nothing lower is unfinished.
            end: the offset after the broker's newest message, when it replied.
        """
        self.pulling = False
        self._end = end
        if self.dropped is not None:
            return False
        self.messages.put(messages)
        self.next_pull = max(self.next_pull, next_offset)
        self._advance()
        return self.messages.pending > 0 and self.request_run()

    def pull_failed(self) -> None:
        """A pull ended without a reply: the gate may open again."""
        self.pulling = False

    def restart_at(self, offset: int, reason: Drop) -> bool:
        """Give the queue up and start it again at `offset`; discard all else.

        The offset may go down. Results of messages in hand no longer count. A queue that is being
        given up for another reason takes an offset the broker named with it, to its next owner.
        Returns whether this changed anything (the shell then announces it).

        Args:
            offset: what the broker named when it refused ours, or what the user chose.
            reason: OFFSET_ILLEGAL or MOVED.
        """
        self.pulling = False
        if self.restarted or self.dropped is Drop.LOST:
            return False
        if self.dropped is not None and reason is Drop.MOVED:
            return False
        self.offset = offset
        self.restarted = True
        if self.dropped is None:
            self.dropped = reason
        return True

    def _advance(self) -> None:
        """Move the offset up to the lowest message that is not finished."""
        head = self.messages.head
        self.offset = max(self.offset, self.next_pull if head is None else head.queue_offset)

    # --- running -------------------------------------------------------------------------------

    def pause(self) -> None:
        """Hand nothing more out and pull no more; what is in hand ends, the lock is kept."""
        self.paused = True

    def resume(self, now: float) -> bool:
        """End a pause; returns whether the shell shall request a run, and then asks to pull."""
        self.paused = False
        self.pulled_at = now
        return self.messages.pending > 0 and self.request_run()

    def request_run(self) -> bool:
        """Claim the run; True if the caller must submit it. Requests during a run coalesce.

        The claim lasts until `take` finds nothing, so over suspensions too: nobody else starts
        the queue while it waits.
        """
        if self._running or self.dropped is not None:
            return False
        self._running = True
        return True

    def take(self, limit: int, now: float) -> list[ReceivedMessage]:
        """Next batch for the handler, only under a valid lease; an empty list ends the run."""
        self.keeps_lock(now)
        stopped = self.paused or self.dropped is not None
        batch = [] if stopped else self.messages.take(limit)
        self._running = bool(batch)
        self.handling_since = now if batch else None
        self.handled_at = now if batch else self.handled_at
        self.suspended_until = None
        return batch

    def lend(self, now: float) -> bool:
        """Let something else than a batch run on the queue's lane; only under a valid lease.

        The caller has claimed the run. `give_back` ends it; until then the queue is not idle.
        """
        if not self.keeps_lock(now) or self.dropped is not None:
            return False
        self.handling_since = now
        return True

    def give_back(self) -> None:
        """End what `lend` began."""
        self.handling_since = None

    def finish(
        self,
        batch: Sequence[ReceivedMessage],
        disposition: Disposition,
        now: float,
        finished: Collection[int] = (),
        untried: Collection[int] = (),
    ) -> None:
        """Apply a handler's result.

        A success that ends after the queue was revoked still counts, for the lock was kept. After
        a lost lock or a reset it does not: the offset is no longer ours to move.

        Args:
            batch: what `take` returned.
            disposition: what happens to the messages in hand.
            now: seconds.
            finished: with PUT_BACK, queue offsets of the batch that are done nevertheless.
            untried: with PUT_BACK, queue offsets that no attempt is counted for.
        """
        self.handling_since = None
        if not self.keeps_lock(now) or self.restarted:
            return
        if disposition is Disposition.COMMIT:
            self.messages.commit()
        elif disposition is Disposition.PUT_BACK:
            self.messages.put_back(batch, finished, untried)
        elif disposition is Disposition.ROLLBACK:
            self.messages.rollback()
        self._advance()

    def abort(self) -> None:
        """Make everything in hand pending again after a defect; the claim on the run is kept."""
        self.handling_since = None
        self.messages.rollback()

    # --- saving --------------------------------------------------------------------------------

    def unsaved(self, now: float) -> int | None:
        """The offset to save, or None if it is saved already or not ours to save."""
        if not self.keeps_lock(now) or self.offset == self._saved:
            return None
        return self.offset

    def saved(self, offset: int) -> None:
        """The broker acknowledged `offset`."""
        self._saved = offset
