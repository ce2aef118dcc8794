"""One queue that this consumer holds: lock, messages, offset and the right to run, in one place.

Every rule that keeps the order is a method of `OwnedQueue`: a message is handed out only under a
valid lease, one batch of a lane at a time, and the offset moves only over what is finished while
the queue is ours. With order by queue there is one lane; with order by key one for each key.

Life: held -> (drop) leaving -> idle -> released by the shell. A dropped queue comes back only as
a new OwnedQueue, after its lock and its offset have been asked for again; a cache that outlived a
lost lock is never used (Java keeps it and delivers what others may have passed).

Its parts come first: why it is given up (`Drop`), and how long its lock is trusted (`Lease`). When
it is pulled is in `pull_window`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from enum import Enum

from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.crashes import Crashes, Suspects
from orderly.ordering.fence import Fence, landmark_of
from orderly.ordering.lane import Batch, Lane, Turn
from orderly.ordering.lanes import Lanes
from orderly.ordering.offset_runs import ConsumedAhead, Runs, contains
from orderly.ordering.parking import NOTHING_PARKED, ParkedKeys, ParkingState
from orderly.ordering.pull_window import Limit, PullGate, Window
from orderly.ordering.repeats import NONE_MARKED, Repeats
from orderly.ordering.results import Disposition
from orderly.protocol.state_record import SentAgain


class Drop(Enum):
    """Why a queue is given up."""

    REVOKED = "given to another member, or unsubscribed"
    LOST = "the broker's lock was lost, or not renewed in time"
    FENCED = "the committed offset was changed by somebody else"
    RESUBSCRIBED = "the subscription changed; it is taken again with the new one"
    OFFSET_ILLEGAL = "the broker no longer has the offset, or it was reset"
    MOVED = "the offset was set by hand"
    STALLED = "it was not pulled for two minutes"
    STANDING = "no handler call begins in this member"
    RECREATED = "its topic was deleted and created again"
    CLOSING = "the consumer is closing"


NOT_OURS = frozenset({Drop.LOST, Drop.FENCED, Drop.RECREATED})
"""Reasons after which the offset is no longer ours to move."""


# --- the lease: how long the broker's queue lock may be trusted here ------------------------------
# The broker frees a lock 60 s after the last renewal; a client distrusts it after 30 s (Java:
# ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME). Age counts from the moment the request was *sent*:
# the broker renewed later than that, so the error is always on the safe side.


class Lease:
    """One queue's lock as this client sees it."""

    __slots__ = ("_held", "_renewed_at", "_trust")

    def __init__(self, asked_at: float, trust: float) -> None:
        self._renewed_at = asked_at
        self._trust = trust
        self._held = True

    @property
    def renewed_at(self) -> float:
        """When the last successful renewal was asked for (seconds)."""
        return self._renewed_at

    @property
    def ends_at(self) -> float:
        """Until when nobody else can own the queue, if it is not renewed (seconds)."""
        return self._renewed_at + self._trust

    def valid(self, now: float) -> bool:
        """True while nobody else can own the queue."""
        return self._held and now - self._renewed_at < self._trust

    def renew(self, asked_at: float) -> None:
        """The broker granted what was asked at `asked_at`; a late, older answer changes nothing.

        A lost lease stays lost, and so does one that had run out by then: somebody else may have
        owned the queue in between.
        """
        if asked_at - self._renewed_at >= self._trust:
            self._held = False
        self._renewed_at = max(self._renewed_at, asked_at)

    def lose(self) -> None:
        """The broker no longer counts us as the owner, or the trust ran out."""
        self._held = False


# --- the queue ------------------------------------------------------------------------------------


EXPIRING = 0.5  # of the time for which a broker keeps a message: then a warning says that it goes
LAST_TRY = 0.75  # then its key is parked if it fails once more
PULL_IDLE = 120.0  # seconds without a pull that should be one (Java: ProcessQueue.isPullExpired)


class OwnedQueue:
    """A held queue. Not thread-safe: the shell's lock is around every call.

    Args:
        queue: which one.
        start: offset of the first message to pull, from `find_start` or `take_over`.
        lease: the lock, just granted.
        max_messages, max_bytes: cached messages and bytes at which the pull gate closes.
        by_key: a lane for each key, instead of one for all messages.
        max_runs: batches that may be in work at once.
        max_span: with `by_key`, how far the pull may be ahead of the lowest unfinished offset.
        batch_size: messages of a full batch; the lane of a key keeps room for one.
        spacing: with `by_key`, seconds for each message of a key until its next one; 0: no limit.
        finished: what former owners finished ahead of `start`; it is not handed out again.
        fence: the offsets that are ours at the broker; None: `start`.
        kept: the keys that former owners parked.
        generation: of the topic, as the record counts them.
        suspects: what may have ended their processes; None: nothing.
        repeats: what is known of repeated sends; None: nothing.

    Attributes:
        messages: what is unfinished here.
        fence: what we wrote to the broker.
        parking: the keys that are parked.
        suspects: messages that may end the process of whoever handles them.
        repeats: messages that repeat others.
        last_tries: by key, a message that is about to be deleted: if it fails once more, it is
            taken out of the way.
        no_key: how the key function fails for the next message, set by the shell; None: it works.
        too_large: why the next message cannot be pulled, set by the shell; None: it can.
        pull_error: why the last pull failed; None: it did not, or none has ended yet.
        failing_since: when the first of the pulls began that failed since the last that did not.
        held_until: until when the rate of the consumer holds the queue back (seconds), set by the
            shell; None: it does not.
    """

    def __init__(
        self,
        queue: MessageQueue,
        start: int,
        lease: Lease,
        *,
        max_messages: int,
        max_bytes: int,
        by_key: bool = False,
        max_runs: int = 1,
        max_span: int = 1_000_000,
        batch_size: int = 1,
        spacing: float = 0.0,
        finished: Runs = (),
        fence: Fence | None = None,
        kept: ParkingState = NOTHING_PARKED,
        generation: int = 0,
        suspects: Suspects | None = None,
        repeats: Repeats | None = None,
    ) -> None:
        self.queue = queue
        self.lease = lease
        self.by_key = by_key
        self.messages = Lanes(
            bounded=by_key, batch_size=batch_size, spacing=spacing, aside=self._goes_aside
        )
        self.next_pull = start
        self.offset = start
        self.fence = Fence(start, now=lease.renewed_at) if fence is None else fence
        self.parking = ParkedKeys(kept, generation)
        self.suspects = suspects or Suspects()
        self.repeats = repeats or Repeats()
        self.dropped: Drop | None = None
        self.restarted = False
        self.paused = False
        self.handled_at: float | None = None
        self.pulled_at = lease.renewed_at
        self.pulling = False
        self.pull_error: str | None = None
        self.failing_since: float | None = None
        self._proven = False
        self.refilling = False
        self._planned = -math.inf
        self.last_tries: dict[Hashable, int] = {}
        self._expires: tuple[int, float] | None = None
        self.no_key: str | None = None
        self.too_large: str | None = None
        self.held_until: float | None = None
        self._start = start
        self._spacing = spacing
        self._end: int | None = None
        self._finished = finished
        self._runs = 0
        self._run_waits = False
        self._max_runs = max_runs
        self._window = Window(self.messages, max_span if by_key else None)
        self.limit(max_messages, max_bytes)

    def limit(self, max_messages: int, max_bytes: int) -> None:
        """Set the cached messages and bytes at which the pull gate closes."""
        self.messages.limit(max_messages, max_bytes)

    # --- leaving -------------------------------------------------------------------------------

    def drop(self, reason: Drop) -> bool:
        """Stop handing out; returns whether this changed anything.

        Losing the lock outranks every other reason, and so does somebody else's progress: nothing
        may be saved after it.
        """
        if reason is Drop.LOST:
            self.lease.lose()
        if self.dropped is None or (reason in NOT_OURS and self.dropped not in NOT_OURS):
            self.dropped = reason
            return True
        return False

    @property
    def idle(self) -> bool:
        """True if no handler has a message of this queue."""
        return self.messages.running == 0

    @property
    def handling_since(self) -> float | None:
        """When the oldest batch in work was taken (seconds), or None."""
        return self.messages.handling_since

    def keeps_lock(self, now: float) -> bool:
        """True if the lock is ours: also while a dropped queue's handler still runs.

        A lease that was not renewed in time is lost, whoever notices first.
        """
        if self.lease.valid(now):
            return True
        self.drop(Drop.LOST)
        return False

    @property
    def counts(self) -> bool:
        """True if results still move the offset: not after a reset or somebody else's progress."""
        return not self.restarted and self.dropped not in NOT_OURS

    # --- pulling -------------------------------------------------------------------------------

    def pull_gate(self, now: float) -> PullGate:
        """Ask to pull; OPEN marks the pull as under way, until `pulled` or `pull_failed`."""
        gate = self._gate(now)
        if gate is PullGate.OPEN:
            self.pulling, self.pulled_at = True, now
        return gate

    def _gate(self, now: float) -> PullGate:
        if self.dropped is not None:
            return PullGate.DROPPED
        if not self.keeps_lock(now):
            return PullGate.NOT_LOCKED
        if self.paused:
            return PullGate.PAUSED
        if self.pulling:
            return PullGate.BUSY
        return PullGate.FULL if self._window.full(self.span) else PullGate.OPEN

    @property
    def span(self) -> int:
        """Offsets from the lowest unfinished message to the next pull."""
        return self.next_pull - self.offset

    @property
    def throttled(self) -> bool:
        """True if pulling waits because enough is cached, or finished ahead."""
        return self._window.throttled

    @property
    def wants_pull(self) -> bool:
        """True once a queue whose gate was FULL has been worked down to half."""
        return self._window.reopens(self.span)

    def wants_bodies(self, now: float) -> bool:
        """True if the shell must pull: further messages, or bodies that were not kept."""
        return (self._window.throttled and self.wants_pull) or self._wants_refill(now)

    def _wants_refill(self, now: float) -> bool:
        due = None if self.refilling else self.messages.refill_at
        return due is not None and due <= now and self.messages.refills

    @property
    def stuck_full(self) -> bool:
        """True if all that may be cached is in hand, uncommitted: only a commit helps."""
        return self._window.stuck

    @property
    def limit_reached(self) -> Limit | None:
        """What has to be finished before the queue is pulled further; None: nothing."""
        return self._window.limit(self.span)

    @property
    def full_of_waiting(self) -> bool:
        """True if nothing more may be pulled, for most keys with something unfinished wait."""
        held = self.messages
        waiting = 2 * (held.suspended + held.paused) >= len(held) > 0
        return self.throttled and waiting and self.limit_reached is not None

    def pull_stalled(self, now: float) -> bool:
        """True if the queue should have been pulled for two minutes and was not.

        A defence against a defect, in a client library or a broker: the queue is taken again.
        """
        expected = self.dropped is None and not self.paused and not self.throttled
        return expected and now - self.pulled_at > PULL_IDLE

    @property
    def end(self) -> int | None:
        """The offset after the broker's newest message at the last pull; None: there was none."""
        return self._end

    @property
    def at_end(self) -> bool:
        """True if the last pull reached the end of the queue and all of it is finished."""
        return self._end is not None and self.offset >= self._end

    def pulled(
        self,
        messages: Sequence[ReceivedMessage],
        next_offset: int,
        end: int | None = None,
        keys: Sequence[Hashable] | None = None,
        *,
        marked: Mapping[int, int | None] = NONE_MARKED,
    ) -> bool:
        """Take in a pull's reply; returns whether something can be handed out.

        Args:
            messages: what passed the filter, in offset order.
            next_offset: where the next pull starts. Offsets below it that brought no message were
                filtered and count as done once nothing lower is unfinished.
            end: the offset after the broker's newest message, when it replied.
            keys: of each message, with `by_key`.
            marked: those that were sent again, see `Repeats.arrived`.
        """
        self.pulling = False
        self.too_large = self.pull_error = self.failing_since = None
        self._proven = True
        self._end = end
        if self.dropped is not None:
            return False
        if messages and self.fence.landmark is None:
            self.fence.landmark = landmark_of(messages[0])
        self.repeats.arrived(messages, marked)
        if self._finished:
            new = [not contains(self._finished, m.queue_offset) for m in messages]
            messages = [m for m, is_new in zip(messages, new, strict=True) if is_new]
            keys = keys and [key for key, is_new in zip(keys, new, strict=True) if is_new]
        self.messages.put(messages, keys)
        self.next_pull = max(self.next_pull, next_offset)
        if self._finished and self.next_pull >= self._finished[-1][1]:
            self._finished = ()
        self._advance()
        self._look_for_suspects()
        return self.messages.ready

    def pull_failed(self, error: str | None = None) -> None:
        """A pull ended without a reply: the gate may open again.

        Args:
            error: of the pull; None: it proves nothing, and another one follows.
        """
        self.pulling = False
        if error is not None:
            self.pull_error = error
            if self.failing_since is None:
                self.failing_since = self.pulled_at

    @property
    def proven(self) -> bool:
        """True if the last pull that ended has shown that the queue can be pulled."""
        return self._proven and self.pull_error is None

    @property
    def unproven_since(self) -> float | None:
        """Since when no pull has shown that (seconds); -inf: never since the queue was taken.

        None: no pull is expected, for the queue is paused, full or given up.
        """
        if self.dropped is not None or self.paused or self.throttled:
            return None
        if not self._proven:
            return -math.inf
        return self.pulled_at if self.failing_since is None else self.failing_since

    def forget_end(self) -> None:
        """The log was cut, and is no other one: the next reply says where it ends now."""
        self._end = None

    def refill_gate(self, now: float) -> int | None:
        """Ask to pull bodies again that were not kept; marks it as under way, until `refilled`.

        Returns:
            Where to pull from, or None: nothing is missed, or not yet; there is no room; or it is
            under way.
        """
        if self.dropped is not None or not self._wants_refill(now):
            return None
        if self.paused and self.messages.refill_at != -math.inf:  # an errand's come all the same
            return None
        self.refilling = True
        return self.messages.refill_from

    def plan_refill(self, now: float) -> float | None:
        """When the shell must ask again about lanes with patience; None: not necessary.

        Bodies are asked for without that when a batch was finished, or a refill.
        """
        due = self.messages.refill_at
        if due is None or due <= now or now < self._planned <= due:
            return None
        self._planned = due
        return due

    def refilled(
        self, asked: int, messages: Sequence[ReceivedMessage], next_offset: int
    ) -> list[int]:
        """Take in such bodies; returns offsets of messages the broker no longer has.

        Args:
            asked: what `refill_gate` returned.
            messages: what a pull from there brought.
            next_offset: where it ended; `asked` if it failed.
        """
        self.refilling = False
        if self.dropped is not None:
            return []
        missing = self.messages.refill(asked, messages, next_offset)
        if missing:
            self.repeats.lost(missing)
        self._advance()
        return missing

    def stands_at(self, offset: int) -> bool:
        """True if it is there already, with nothing cached or finished ahead: no need to restart.

        Nor must it: an `assigned` hook that seeks would be called again and again.
        """
        there = self.offset == self.next_pull == offset and not self.finished_ahead
        return there and self.dropped is None

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
        if self.dropped in NOT_OURS:
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
        lowest = self.messages.lowest
        if lowest is None:
            lowest = self.next_pull
        self.offset = max(self.offset, lowest)

    # --- running -------------------------------------------------------------------------------

    def pause(self) -> None:
        """Hand nothing more out and pull no more; what is in hand ends, the lock is kept."""
        self.paused = True

    def resume(self, now: float) -> None:
        """End a pause; the shell then requests a run and asks to pull."""
        self.paused = False
        self.pulled_at = now

    def pause_key(self, key: Hashable) -> None:
        """Hand nothing more of a key out, now or when it comes; the others go on."""
        self.messages.pause(key)

    def resume_key(self, key: Hashable, now: float) -> None:
        """End that; the shell then requests a run, and asks for bodies."""
        self.messages.resume(key, now)

    def request_run(self) -> bool:
        """Claim a run; True if the caller must submit it.

        The claim lasts until `take` finds nothing. There are never more runs than may be, nor is
        one claimed for a queue that has nothing to hand out, nor while another one has not begun:
        with quick handlers the present runs are done before it would (each wakes a thread).
        """
        if self._run_waits or self._runs >= (1 if self.suspects.on else self._max_runs):
            return False
        if self.dropped is not None or not self.messages.ready:
            return False
        self._runs += 1
        self._run_waits = True
        return True

    def begin_run(self) -> None:
        """A claimed run is on its thread, or in its task: the next one may be claimed."""
        self._run_waits = False

    def take(self, size: int, now: float, calls: int = 1, *, paid: bool = True) -> Batch | None:
        """Next batch for the handler, only under a valid lease; None ends the run.

        Args:
            size: messages of one call at most.
            now: seconds.
            calls: for how many calls messages are taken at once, where that may be.
            paid: False: only what needs no permit of the consumer's rate.
        """
        self.keeps_lock(now)
        if self.suspects.careful:
            size = calls = 1
        elif self._spacing:
            calls = 1
        stopped = self.paused or self.dropped is not None
        batch = None if stopped else self.messages.take(size, now, calls, paid=paid)
        if batch is None:
            self._runs -= 1
        else:
            self.handled_at = now
            if self.repeats.firsts and batch.messages:
                self._set_apart(batch)
        return batch

    # --- repeated sends ------------------------------------------------------------------------

    def _set_apart(self, batch: Batch) -> None:
        """Cut a batch before the first message that may be a repeat, or after it if it is one."""
        self.repeats.passed(self.offset)
        firsts = self.repeats.firsts
        if batch.messages[0].queue_offset in firsts:
            batch.repeats = self._repeated(batch.messages[0], batch.lane)
        may_be = (n for n, message in enumerate(batch.messages) if message.queue_offset in firsts)
        place = 1 if batch.repeats is not None else next((n for n in may_be if n), None)
        if place is not None:
            self.messages.narrow(batch, place)
        if batch.repeats is not None:
            batch.began = None

    def _repeated(self, message: ReceivedMessage, lane: Lane) -> int | None:
        """Where the copy stands that a message in hand repeats; None: it repeats nothing.

        It does not before that copy is finished, or a handler keeps it (manual commit).
        """
        first = self.repeats.firsts.get(message.queue_offset)
        if first is None or first < self._start or first < self.offset:
            return first
        kept = any(each.queue_offset == first for each in lane.messages.taken)
        return first if kept or first not in self.messages.offsets() else None

    def no_repeats(self, lane: Lane) -> list[ReceivedMessage]:
        """What a lane has in hand, without what repeats something finished or in hand."""
        taken = lane.messages.taken
        if not self.repeats.firsts:
            return list(taken)
        return [message for message in taken if self._repeated(message, lane) is None]

    @property
    def floor(self) -> int:
        """Below it nothing counts for its next owner in this process; see `Repeats`.

        Another filter may have left a first copy out. Of a topic that is no more nothing counts.
        """
        if self.dropped is Drop.RECREATED:
            return 0
        chosen = self.restarted or self.dropped is Drop.RESUBSCRIBED
        return self.offset if chosen else self.repeats.floor

    @property
    def sent_again(self) -> tuple[SentAgain, ...]:
        """The marked messages that are finished: what a later owner is to know of.

        Not what is unfinished: a broker can lose it, and then a late copy is the message.
        """
        book = self.repeats.book
        if not book or self.restarted or self.dropped is Drop.RECREATED:
            return ()
        unfinished = {each.offset for each in book if each.offset >= self.offset}
        if unfinished:
            unfinished.intersection_update(self.messages.offsets())
        return tuple(each for each in book if each.offset not in unfinished)

    def hands_out(self, batch: Batch, now: float) -> bool:
        """True if a batch in work may go on to its next message; may be asked without the lock."""
        paused = self.paused or batch.lane.paused
        return self.dropped is None and not paused and self.lease.valid(now)

    def catch_up(self, batch: Batch) -> None:
        """Count what is done of a batch that is still in work (`Batch.done`)."""
        if self.counts:
            self.messages.catch_up(batch)
            self._advance()

    def narrow(self, batch: Batch, kept: int) -> None:
        """Count what is done of a batch, and give back what was not handed out.

        Args:
            batch: in work.
            kept: how many messages, after those that are done, `finish` will be called with.
        """
        if self.counts:
            self.messages.narrow(batch, kept)
            self._advance()
        else:
            batch.narrow(kept)

    def wake(self, now: float) -> None:
        """Let lanes go on whose suspension is over; the shell then requests a run."""
        self.messages.wake(now)

    def want_turn(self, key: Hashable, turn: Turn) -> None:
        """Have a lane task taken in the turn of that key's lane: never beside the handler."""
        self.messages.want_turn(key if self.by_key else None, turn)

    def take_errand(self, now: float) -> Batch | None:
        """Next errand, only under a valid lease; a pause of the queue does not hold it back."""
        if not self.keeps_lock(now) or self.dropped is not None:
            return None
        return self.messages.take_errand(now)

    def give_back(self, batch: Batch, now: float) -> float | None:
        """End a lane task; the rate of its key counts the calls that it made, too.

        Returns:
            Seconds after which the shell is to call `wake`; None: it need not.
        """
        if self._spacing and batch.began is not None:
            self.messages.note_pace(batch.key, batch.began + self._spacing)
        until = self.messages.pace_end(batch.key)
        paced = until > now and not self._goes_aside(batch.key)
        self.messages.give_back(batch, until if paced else None)
        return until - now if paced else None

    def finish(
        self,
        batch: Batch,
        disposition: Disposition,
        now: float,
        *,
        finished: Collection[int] = (),
        untried: Collection[int] = (),
        wait: float | None = None,
    ) -> float | None:
        """Apply a handler's result.

        A success that ends after the queue was revoked still counts, for the lock was kept. After
        a lost lock or a reset it does not: the offset is no longer ours to move.

        Args:
            batch: what `take` returned.
            disposition: what happens to the messages its lane has in hand.
            now: seconds.
            finished: with PUT_BACK or ROLLBACK, queue offsets of the batch that are done
                nevertheless.
            untried: queue offsets that the handler did not come back from; with PUT_BACK no attempt
                is counted for them.
            wait: seconds the lane is suspended; None: it goes on.

        Returns:
            Seconds after which the shell is to call `wake`; None: it need not.
        """
        if not self.keeps_lock(now) or not self.counts:
            self.messages.give_back(batch)
            return None
        wake_at = None if wait is None else now + wait
        wakes = self.messages.finish(
            batch, disposition, finished=finished, untried=untried, wake_at=wake_at
        )
        if wakes is not None and wait is None and wakes <= now:
            self.wake(now)
            wakes = None
        self._advance()
        if disposition is not Disposition.COMMIT and self.suspects.counting:
            tried = {message.queue_offset for message in batch.messages}
            self.suspects.came_back(tried.difference(untried))
        if self.suspects.careful:
            self._settle_suspects(batch)
        return None if wakes is None else max(0.0, wakes - now)

    def end_run(self) -> None:
        """End a run that did not come to its end in `take`."""
        self._runs -= 1

    def _goes_aside(self, key: Hashable) -> bool:
        """True if messages of a key go to the park queue, and not to the handler."""
        return self.parking.parked(key)

    def is_finished(self, key: Hashable, offset: int) -> bool:
        """True if the message of `key` at `offset` is done here; else it is still to come.

        A parked copy of one that is not done was written by somebody who could not say so any more.
        Of a key that was parked in a former generation of the topic nothing is still to come.
        """
        if self.parking.is_former(key):
            return True
        if offset >= self.next_pull:
            return contains(self._finished, offset)
        low = self.messages.lowest_of(key)
        return low is None or offset < low

    # --- messages that may end the process -----------------------------------------------------

    def tries(self, offset: int | None) -> None:
        """A suspect is about to be handled; None: the handler came back from it."""
        self.suspects.tries(offset)
        self._look_for_suspects()

    def _settle_suspects(self, batch: Batch) -> None:
        for message in batch.messages:
            if batch.lane.lowest is None or message.queue_offset < batch.lane.lowest:
                self.suspects.finished(message.queue_offset)
        self._look_for_suspects()

    def _look_for_suspects(self) -> None:
        if self.suspects.on:
            self._look_at_heads()

    def _look_at_heads(self) -> None:
        lanes = self.messages.lanes  # under manual commit the lowest one came back before
        heads = (at for lane in lanes for at in (lane.low, lane.following) if at is not None)
        self.suspects.look(self.offset, self.next_pull, heads)

    def crashes(self, *, closing: bool = False) -> Crashes:
        """What is to be on record of messages that end processes; see `Suspects.recorded`."""
        if self.suspects.counting:  # looked for no more often than somebody asks
            self._look_at_heads()
        return self.suspects.recorded(self.offset, closing=closing)

    # --- messages that the broker is about to delete -------------------------------------------

    def look_at_ages(self, now: float, today: float, retention: float, *, act: bool) -> bool:
        """Note what grows too old; returns whether the lowest unfinished message newly does.

        Of all that is unfinished the lowest is the oldest; also of what has no body here, which is
        lost if the broker deletes it.

        Args:
            now: seconds.
            today: the same moment in seconds since 1970.
            retention: seconds for which the broker keeps messages.
            act: whether what fails once more may be taken out of the way.
        """
        before, self._expires, self.last_tries = self._expires, None, {}
        lanes = [lane for lane in self.messages.lanes if lane.oldest is not None]
        ages = [(lane, today - (lane.oldest or 0.0)) for lane in lanes]
        for lane, age in ages:
            if lane.low == self.offset and age >= retention * EXPIRING:
                self._expires = (self.offset, now + retention - age)
            if act and age >= retention * LAST_TRY and lane.low is not None:
                self.last_tries[lane.key] = lane.low
        return self._expires is not None and (before is None or before[0] != self.offset)

    def expires_in(self, now: float) -> float | None:
        """Seconds until the broker may delete the lowest unfinished message; None: not soon."""
        if self._expires is None or self._expires[0] != self.offset:
            return None
        return max(0.0, self._expires[1] - now)

    def last_try(self, batch: Batch) -> int | None:
        """Which message of the batch in work must not be tried again if it failed; asked once."""
        offset = self.last_tries.get(batch.key) if self.last_tries else None
        if offset is None or batch.messages[0].queue_offset > offset:
            return None
        return self.last_tries.pop(batch.key)

    # --- saving --------------------------------------------------------------------------------

    def may_save(self, now: float) -> bool:
        """True if the committed offset is ours to move."""
        return self.keeps_lock(now) and self.dropped not in NOT_OURS

    def unsaved(self, now: float) -> int | None:
        """The offset to save, or None if it is saved already or not ours to save."""
        if not self.may_save(now) or self.offset == self.fence.written:
            return None
        return self.offset

    @property
    def ahead(self) -> ConsumedAhead | None:
        """What `finished_ahead` is worked out from; None: after a reset nothing counts as such.

        A quick copy: the shell works it out when it has let go of its lock.
        """
        if self.restarted or not self.by_key:
            return None
        return ConsumedAhead(self.offset, self.next_pull, self.messages.offsets(), self._finished)

    @property
    def finished_ahead(self) -> Runs:
        """What is finished above the offset."""
        ahead = self.ahead
        return () if ahead is None else ahead.finished
