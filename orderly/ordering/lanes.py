"""The unfinished messages of one queue, in lanes: in order within a key, side by side otherwise.

A lane has the messages of one key in a `ProcessQueue`, and one batch of it is handled at a time.
With order by queue all messages of the queue are in one lane. `Lanes` has the lanes of one queue.

Knows nothing of locks, time or the network. What is finished ahead of an unfinished message costs
nothing here: only what is unfinished is kept. A lane that gets far behind, or that waits while
many others do, keeps only the offsets of its later messages; their bodies are pulled again when
it gets there. The bodies of all lanes that wait share a quarter of the room, and those that wake
last let theirs go first.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import assert_never

from orderly.model import ReceivedMessage
from orderly.ordering.lane import Batch, Lane, Turn
from orderly.ordering.lowest import Lowest
from orderly.ordering.results import Disposition

LANE_BODIES = 64  # pending messages of a lane kept with bodies, when a queue has many lanes
SUSPENDED_BODIES = 8  # the same of a lane that waits, beyond what it tried
WAITING_PART = 4  # of the room: for all that wait; the same for all bodies pulled again
_PATIENCE = 8  # a lane without bodies waits this part of its wait more: a pull serves several
_MOST_PATIENCE = 5.0  # seconds
SHORT_KEY = 256  # bytes of memory; how many short ones there are is bounded
_PACES = 1000  # keys whose rate may be remembered longer than it counts


class Lanes:
    """Not thread-safe.

    Lanes that can go on are in one of four lines: for errands, for lane tasks that call the
    handler, for messages that go aside (no handler gets them, so they need no permit), and for
    messages that are handed out. Of the last two the lane that has waited longest is next.

    Args:
        bounded: keep only offsets of what a lane has beyond `LANE_BODIES`; False: with one lane
            for the whole queue there is nobody to protect.
        batch_size: messages of a full batch; a lane may keep as many in any case.
        spacing: seconds between the beginnings of two calls with a key, for each message of the
            first; 0: no such limit.
        aside: whether the messages of a key go to no handler; that changes in its lane's turn only.

    Attributes:
        count, size: messages kept with their bodies, and their bytes of memory (`held_size`).
        pending: those of them that are not in hand.
        asleep, asleep_size: those of the pending ones that belong to suspended lanes, and their
            bytes.
        again: bodies that were pulled again for lanes that have not handed them out yet.
        refill_at: when bodies are to be asked for that a lane misses to go on (seconds); None: no
            lane does. Whoever misses them longest is first. A lane that waited after a failure has
            patience: so long that one pull brings the bodies of several.
        deferred: messages of which only the offset is kept.
        long_keys: bytes of memory that the keys of all lanes take beyond `SHORT_KEY` each.
        paced: lanes that wait because their key's rate is limited.
        paused: lanes with something unfinished that the program holds back.
        paused_messages: what these have unfinished.
        paused_deferred: the part of `deferred` that is theirs.
    """

    def __init__(
        self,
        *,
        bounded: bool,
        batch_size: int = 1,
        spacing: float = 0.0,
        aside: Callable[[Hashable], bool] = lambda _: False,
    ) -> None:
        self.count = 0
        self.size = 0
        self.pending = 0
        self.asleep = 0
        self.asleep_size = 0
        self.again = 0
        self.refill_at: float | None = None
        self.deferred = 0
        self.long_keys = 0
        self.paced = 0
        self.paused = 0
        self.paused_messages = 0
        self.paused_deferred = 0
        self._spacing = spacing
        self._goes_aside = aside
        self._max_count = self._max_size = inf
        self._bounded = bounded
        self._awake_bodies = max(LANE_BODIES, batch_size)
        self._last = -1
        self._now = -inf  # seconds, when something was last taken
        self._lanes: dict[Hashable, Lane] = {}
        self._paused: set[Hashable] = set()
        self._errands: deque[Lane] = deque()
        self._tasks: deque[Lane] = deque()
        self._aside: deque[Lane] = deque()
        self._ready: deque[Lane] = deque()
        self._places = 0
        self._pace_ends: dict[Hashable, float] = {}
        self._running: dict[Lane, Batch] = {}  # in the order in which they were taken
        self._asleep: list[tuple[float, int, Lane]] = []
        self._wake_sequence = 0
        self._resting: list[tuple[float, int, Lane]] = []  # those asleep with bodies, sorted
        self._refills: Lowest[tuple[float, int]] = Lowest()  # of lanes that could go on with bodies
        self._missed: dict[int, Lane] = {}  # by the offset of the first body a lane misses
        self._lowest: Lowest[int] = Lowest()  # of each lane's lowest unfinished offset

    # --- what there is -------------------------------------------------------------------------

    def __len__(self) -> int:
        """Lanes with something unfinished."""
        return len(self._lanes)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """A snapshot of all lanes."""
        return tuple(self._lanes.values())

    @property
    def ready(self) -> bool:
        """True if something can be taken."""
        return bool(self._ready or self._aside or self._tasks)

    @property
    def ready_unpaid(self) -> bool:
        """True if something can be taken that needs no permit; may be asked without the lock."""
        return bool(self._tasks or self._aside)

    @property
    def errand_due(self) -> bool:
        """True if an errand can be taken; may be asked without the lock."""
        return bool(self._errands)

    @property
    def running(self) -> int:
        """Lanes of which something is in work."""
        return len(self._running)

    @property
    def handling_since(self) -> float | None:
        """When the oldest batch in work was taken that is no errand (seconds), or None."""
        lane = self.longest_running
        return None if lane is None else lane.since

    @property
    def longest_running(self) -> Lane | None:
        """The lane of which that batch is."""
        return next((lane for lane in self._running if not self.on_errand(lane)), None)

    def on_errand(self, lane: Lane) -> bool:
        """True while an errand has the lane's turn: no handler runs."""
        batch = self._running.get(lane)
        return batch is not None and batch.errand

    @property
    def wake_at(self) -> float | None:
        """When the first suspended lane goes on (seconds), or None."""
        return self._asleep[0][0] if self._asleep else None

    @property
    def suspended(self) -> int:
        """Lanes that wait after a failure."""
        return len(self._asleep) - self.paced

    @property
    def next_is_paced(self) -> bool:
        """True if the lane that wakes first waits because its key's rate is limited."""
        return bool(self._asleep) and self._asleep[0][2].paced

    @property
    def lowest(self) -> int | None:
        """The lowest unfinished offset; None: all is finished."""
        return self._lowest.value

    def lane_of(self, key: Hashable) -> Lane | None:
        """The lane of a key; None: nothing of it is unfinished, and nothing would have to wait."""
        return self._lanes.get(key)

    def lowest_of(self, key: Hashable) -> int | None:
        """The lowest unfinished offset of a key; None: all of it is finished."""
        lane = self._lanes.get(key)
        return None if lane is None else lane.lowest

    @property
    def head(self) -> ReceivedMessage | None:
        """The lowest unfinished message, or None if its body is not here."""
        lane = self.lowest_lane
        return None if lane is None else lane.messages.head

    @property
    def lowest_lane(self) -> Lane | None:
        """The lane that holds the lowest unfinished offset."""
        lowest = self.lowest
        return next((lane for lane in self._lanes.values() if lane.low == lowest), None)

    @property
    def in_hand(self) -> int:
        """Messages that were taken and are not finished."""
        return self.count - self.pending

    @property
    def spans(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """First and last offset of the pending and of the in-hand messages, or None each."""
        spans = [lane.messages.spans for lane in self._lanes.values()]
        return _around(pending for pending, _ in spans), _around(hand for _, hand in spans)

    def unfinished(self) -> list[int]:
        """All unfinished offsets, rising."""
        return sorted(self.offsets())

    def offsets(self) -> list[int]:
        """All unfinished offsets, in no order: a copy, made as quickly as can be."""
        offsets: list[int] = []
        for lane in self._lanes.values():
            if lane.messages.count:
                offsets.extend(lane.messages.offsets())
            if lane.later:
                offsets.extend(lane.later)
        return offsets

    # --- room ----------------------------------------------------------------------------------

    def limit(self, count: int, size: int) -> None:
        """Set the messages and bytes beyond which it is crowded."""
        self._max_count, self._max_size = float(count), float(size)
        self._shed()

    def crowded(self, share: float = 1.0) -> bool:
        """True if more is kept than that share of the limits."""
        return self.count > self._max_count * share or self.size > self._max_size * share

    def keys_too_long(self, share: float = 1.0) -> bool:
        """True if keys take more memory than that share of the bytes: a lane keeps its key."""
        return self.long_keys > self._max_size * share

    def room(self) -> float:
        """Bytes of memory until it is crowded; may be asked for without the lock."""
        return max(0.0, self._max_size - self.size)

    @property
    def moving(self) -> float:
        """The part (0 to 1) of what is kept that is still to be handed out, and waits for nothing.

        Neither what waits after a failure nor what a manual commit keeps in hand makes room soon.
        """
        return (self.pending - self.asleep) / max(1, self.count)

    @property
    def _oversleeps(self) -> bool:
        """True if lanes that wait have more bodies than their part; one may stay in any case."""
        most, size = self._max_count / WAITING_PART, self._max_size / WAITING_PART
        return self.asleep > 1 and (self.asleep > most or self.asleep_size > size)

    def _shed(self) -> None:
        """Have lanes that wait let bodies go beyond their part: those that wake last first."""
        while self._resting and self._oversleeps:
            lane = self._resting[-1][2]
            self._trim(lane, lane.messages.pending - 1)
            if not lane.messages.pending:
                self._resting.pop()

    def _trim(self, lane: Lane, keep: int) -> None:
        while self._bounded and lane.messages.pending > keep:
            self._count(lane, lane.drop_body(), -1)
            self.deferred += 1
        self._settle(lane)

    def _has_room(self, lane: Lane) -> bool:
        """True if one more pending message of the lane may be kept with its body."""
        if not self._bounded:
            return True
        pending = lane.messages.pending
        if lane.wake_at is None:
            return pending < self._awake_bodies
        return 0 < pending < SUSPENDED_BODIES  # one that let all go does so with what comes, too

    # --- coming in -----------------------------------------------------------------------------

    def put(self, messages: Sequence[ReceivedMessage], keys: Sequence[Hashable] | None) -> None:
        """Add pulled messages, in the order of their offsets; what was seen before is left out.

        Args:
            messages: what a pull brought.
            keys: of each; None: all are of the one lane there is.
        """
        if keys is None:
            self._put_all(messages)
        else:
            for message, key in zip(messages, keys, strict=True):
                if message.queue_offset > self._last:
                    lane = self._lane(key)
                    self._last = message.queue_offset  # not before: comparing users' keys may raise
                    self._put(lane, message)
        self._shed()

    def _lane(self, key: Hashable) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = Lane(key)
            self.long_keys += _beyond_short(key)
            if key in self._paused:
                lane.paused = True
                if not self._goes_aside(key):
                    lane.wake_at = lane.due = inf
        return lane

    def _put_all(self, messages: Sequence[ReceivedMessage]) -> None:
        """Add messages of the one lane there is, which keeps all bodies."""
        new = [message for message in messages if message.queue_offset > self._last]
        if not new:
            return
        self._last = new[-1].queue_offset
        lane = self._lane(None)
        size = lane.messages.size
        lane.messages.put(new)
        self.count += len(new)
        self.pending += len(new)
        self.size += lane.messages.size - size
        if lane.wake_at is not None:
            self.asleep += len(new)
            self.asleep_size += lane.messages.size - size
        self._settle(lane)

    def _put(self, lane: Lane, message: ReceivedMessage) -> None:
        if lane.later or not self._has_room(lane):
            lane.defer(message)
            self.deferred += 1
        else:
            lane.messages.append(message)
            self._count(lane, message, 1)
        self._settle(lane)

    def _count(self, lane: Lane, message: ReceivedMessage, change: int) -> None:
        self.count += change
        self.pending += change
        size = change * message.held_size
        self.size += size
        if lane.wake_at is not None:
            self.asleep += change
            self.asleep_size += size

    # --- bodies that are pulled again ----------------------------------------------------------

    @property
    def refill_from(self) -> int | None:
        """The offset of the body that is to be asked for first, or None."""
        first = self._refills.value
        return None if first is None else first[1]

    @property
    def refills(self) -> bool:
        """True if bodies may be asked for now. For an errand they come whatever room there is."""
        return self.refill_at == -inf or self.takes_bodies

    @property
    def takes_bodies(self) -> bool:
        """True if there is room for bodies that are pulled again.

        They get a part of the room only, and nothing while the pull waits for the queue to be
        worked down: however many lanes ask for theirs, new messages come in beside them.
        """
        if self.crowded() or self.again >= max(1, self._max_count / WAITING_PART):
            return False
        return self.size <= self._max_size / (1 + self.moving)

    def refill(
        self, asked: int, messages: Sequence[ReceivedMessage], next_offset: int
    ) -> list[int]:
        """Take in bodies that were pulled again.

        They are known by their offsets, so a key function that changed its mind loses nothing. Not
        only the lane that was asked for gets its bodies, but each that can go on, while there is
        room: after an outage that stopped all keys they come back with few pulls.

        Args:
            asked: what `refill_from` was.
            messages: what a pull from there brought.
            next_offset: where that pull ended.

        Returns:
            Offsets that were asked for and no longer exist: they count as finished now.
        """
        missing = []
        lane = self._missed.get(asked)
        found = {message.queue_offset for message in messages}
        for message in messages:
            missing += self._lose(lane, found, message.queue_offset)
            self._take_body(message, lane)
        missing += self._lose(lane, found, next_offset)
        return missing

    def _take_body(self, message: ReceivedMessage, asked_for: Lane | None) -> None:
        lane = self._missed.get(message.queue_offset)
        if lane is None or not (lane.wants_bodies or (lane.wake_at is None and self.takes_bodies)):
            return
        if lane is asked_for or self._has_room(lane):
            lane.take_body(message)
            lane.again += 1
            self.again += 1
            self._count(lane, message, 1)
            self.deferred -= 1
            self._settle(lane)

    def _lose(self, lane: Lane | None, found: Collection[int], end: int) -> list[int]:
        """Forget what a lane misses below `end` and is not found any more."""
        lost: list[int] = []
        while lane and lane.later and lane.later[0] < end and lane.later[0] not in found:
            lost.append(lane.later[0])
            lane.lose_body()
            self.deferred -= 1
        if lane and lost:
            self._settle(lane)
        return lost

    # --- going out -----------------------------------------------------------------------------

    def take(self, size: int, now: float, calls: int = 1, *, paid: bool = True) -> Batch | None:
        """Take a lane task, or messages of the lane that has waited longest.

        What a handler kept (manual commit) is waiting for its word: of such a lane the messages of
        one call are taken.

        Args:
            size: messages of one call at most.
            now: seconds.
            calls: for how many calls they are taken at once, of a lane with nothing in hand.
            paid: False: only what needs no permit.
        """
        self._now = now
        line = self._line_for(paid=paid)
        if line is None:
            return None
        lane = line.popleft()
        lane.line = None
        if line is self._tasks:
            return self._begin_task(lane, now)
        lane.since, lane.due = now, -inf
        if lane.messages.in_hand:
            calls = 1
        if lane.alone_to >= 0 and (lane.following or 0) <= lane.alone_to:
            size = calls = 1
        messages = lane.messages.take(size * calls)
        self.pending -= len(messages)
        began = now if line is self._ready else None
        batch = self._running[lane] = Batch(lane, tuple(messages), began=began)
        return batch

    def hand_out_alone(self, batch: Batch) -> None:
        """Take the messages of a batch in work one at a time when they come again (`blame`)."""
        batch.lane.alone_to = max(batch.lane.alone_to, batch.messages[-1].queue_offset)

    def _line_for(self, *, paid: bool) -> deque[Lane] | None:
        if self._tasks:
            return self._tasks
        if not paid or not self._ready:
            return self._aside or None
        if not self._aside or self._ready[0].place < self._aside[0].place:
            return self._ready
        return self._aside

    def take_errand(self, now: float) -> Batch | None:
        """Take the next errand, or None."""
        if not self._errands:
            return None
        lane = self._errands.popleft()
        lane.line = None
        return self._begin_task(lane, now)

    def _begin_task(self, lane: Lane, now: float) -> Batch:
        """Let a task have the lane's turn; a suspension goes on meanwhile."""
        self._now = now
        turn, *left = lane.turns
        lane.since, lane.turns = now, left
        batch = self._running[lane] = Batch(lane, (), turn.lane_task, turn.errand)
        return batch

    def take_along(self, key: Hashable) -> Batch:
        """Give the errand that has a key's turn all messages whose bodies are here.

        Also of a lane that waits: it goes on waiting if they are put back.
        """
        lane = self._lanes[key]
        batch = self._running[lane]
        self._count_waiting(lane, -1)
        messages: list[ReceivedMessage] = []
        while lane.messages.pending:
            messages += lane.messages.take(lane.messages.pending)
        self.pending -= len(messages)
        batch.messages = tuple(messages)
        return batch

    def _count_waiting(self, lane: Lane, sign: int) -> None:
        if lane.wake_at is not None:
            self.asleep += sign * lane.messages.pending
            self.asleep_size += sign * lane.messages.pending_size

    def in_work(self, batch: Batch) -> bool:
        """True until the batch is finished, or given back."""
        return self._running.get(batch.lane) is batch

    def give_back(self, batch: Batch, paced_until: float | None = None) -> None:
        """End a batch whose result does not count, or a lane task: what is in hand stays there.

        Args:
            batch: in work.
            paced_until: until when the rate of its key holds the lane back; None: it does not.
        """
        lane = batch.lane
        lane.since = None
        self._running.pop(lane, None)
        if paced_until is not None and (lane.wake_at is None or lane.wake_at < paced_until):
            if lane.wake_at is not None:
                self._take_up(lane)
            lane.paced = True
            self._suspend(lane, paced_until, 0)
        self._hold_back(lane)
        self._settle(lane)

    def _hold_back(self, lane: Lane) -> None:
        """Halt a lane that the program paused, unless its messages go to no handler."""
        if lane.paused and not lane.halted and not self._goes_aside(lane.key):
            self._halt(lane)

    def catch_up(self, batch: Batch) -> None:
        """Finish what is done of a batch that stays in work, and what was kept before that.

        A plain success commits all that its lane has in hand; without one nothing is committed.
        """
        if not batch.done or not self.in_work(batch):
            return
        messages = batch.lane.messages
        count, size = messages.count, messages.size
        messages.commit(keep=len(batch.messages) - batch.done)
        if messages.count != count:
            self.count += messages.count - count
            self.size += messages.size - size
            self._settle(batch.lane)

    def narrow(self, batch: Batch, kept: int) -> None:
        """Finish what is done of a batch, and keep only the next `kept` messages in work."""
        self.catch_up(batch)
        untried = len(batch.messages) - batch.done - kept
        batch.lane.messages.untake(untried)
        self.pending += untried
        batch.narrow(kept)

    def finish(
        self,
        batch: Batch,
        disposition: Disposition,
        *,
        finished: Collection[int] = (),
        untried: Collection[int] = (),
        wake_at: float | None = None,
    ) -> float | None:
        """Apply a result to the lane.

        Args:
            batch: what `take` returned.
            disposition: what happens to what the lane has in hand.
            finished: with PUT_BACK or ROLLBACK, queue offsets of the batch that are done
                nevertheless.
            untried: with PUT_BACK, queue offsets that no attempt is counted for.
            wake_at: the lane waits until then (seconds); None: it goes on.

        Returns:
            When the lane goes on (seconds), if it has to wait: for `wake_at`, or for the rate of
            its key; None: at once.
        """
        lane = batch.lane
        messages = lane.messages
        count, size, pending = messages.count, messages.size, messages.pending
        match disposition:
            case Disposition.COMMIT:
                messages.commit()
            case Disposition.KEEP:
                pass
            case Disposition.PUT_BACK:
                messages.put_back(batch.messages, finished, untried)
            case Disposition.ROLLBACK:
                messages.rollback(finished)
            case _:
                assert_never(disposition)
        self.pending += messages.pending - pending
        self.count += messages.count - count
        self.size += messages.size - size
        if lane.wake_at is not None:  # an errand had the turn of one that waits
            self._rest_again(lane, lane.wake_at)
        paced = self._paced_until(batch, wake_at)
        wakes = wake_at if paced is None else paced
        if wakes is not None:
            lane.paced = paced is not None
            self._suspend(lane, wakes, len(batch.messages))
        self.give_back(batch)
        return wakes

    def _paced_until(self, batch: Batch, wake_at: float | None) -> float | None:
        """Until when the rate of its key holds the lane back; None: not for longer than it waits.

        It does not begin to wait before its batch ends, and none is taken meanwhile; so the lane
        is there until the time has passed, also with nothing left.
        """
        if not self._spacing or batch.began is None:
            return None
        until = batch.began + self._spacing * len(batch.messages)
        self.note_pace(batch.key, until)
        over = until <= self._now if wake_at is None else until <= wake_at
        return None if over or self._goes_aside(batch.key) else until

    def note_pace(self, key: Hashable, until: float) -> None:
        """Note until when the rate of a key allows no call, whatever its lane waits for."""
        self._pace_ends[key] = until
        if len(self._pace_ends) > 2 * len(self._lanes) + _PACES:
            self._pace_ends = {k: end for k, end in self._pace_ends.items() if end > self._now}

    def pace_end(self, key: Hashable) -> float:
        """Until when the rate of a key allows no call (seconds)."""
        return self._pace_ends.get(key, -inf)

    def _suspend(self, lane: Lane, wake_at: float, tried: int) -> None:
        """Let it wait, with the bodies of the batch that was tried if there is room for them."""
        entry = self._lay_down(lane, wake_at)
        heappush(self._asleep, entry)
        self.paced += lane.paced
        self._rest(entry, max(SUSPENDED_BODIES, tried))

    def _lay_down(self, lane: Lane, wake_at: float) -> tuple[float, int, Lane]:
        lane.wake_at = wake_at
        lane.due = wake_at + min((wake_at - self._now) / _PATIENCE, _MOST_PATIENCE)
        self._wake_sequence += 1  # two lanes that wake together are never compared themselves
        self._count_waiting(lane, 1)
        return wake_at, self._wake_sequence, lane

    def _rest_again(self, lane: Lane, wake_at: float) -> None:
        self._count_waiting(lane, 1)
        self._resting = [entry for entry in self._resting if entry[2] is not lane]
        self._wake_sequence += 1
        self._rest((wake_at, self._wake_sequence, lane), SUSPENDED_BODIES)

    def _rest(self, entry: tuple[float, int, Lane], keep: int) -> None:
        """See that a lane that waits keeps no more bodies than it may."""
        lane = entry[2]
        self._trim(lane, keep)
        if self._bounded and lane.messages.pending:
            insort(self._resting, entry)
            self._shed()

    def wake(self, now: float) -> None:
        """Let go on whose suspension is over."""
        del self._resting[: bisect_right(self._resting, (now, inf))]
        while self._asleep and self._asleep[0][0] <= now:
            self._go_on(heappop(self._asleep)[2])

    def rouse(self, key: Hashable) -> None:
        """Let a key's lane go on before its suspension is over, and though it is paused."""
        lane = self._lanes.get(key)
        if lane is not None and lane.wake_at is not None:
            lane.paced = lane.paced and not lane.halted  # then it is not counted
            self._take_up(lane)
            lane.due, lane.resumes_at = -inf, None
            self._settle(lane)

    def _go_on(self, lane: Lane) -> None:
        self._rise(lane)
        self._settle(lane)

    def _rise(self, lane: Lane) -> None:
        self._count_waiting(lane, -1)
        self.paced -= lane.paced
        lane.wake_at, lane.paced = None, False

    def _take_up(self, lane: Lane) -> None:
        """End the waiting of one lane, at any place among the others."""
        self._asleep = [entry for entry in self._asleep if entry[2] is not lane]
        heapify(self._asleep)
        self._resting = [entry for entry in self._resting if entry[2] is not lane]
        self._rise(lane)

    # --- lanes that the program holds back -----------------------------------------------------
    # They wait as after a failure, but nobody knows for how long: so they are the last to wake, and
    # the first to let their bodies go.

    def pause(self, key: Hashable) -> None:
        """Take nothing more of a key, now or when something of it comes; what is in work ends."""
        self._paused.add(key)
        lane = self._lanes.get(key)
        if lane is None or lane.paused:
            return
        lane.paused = True
        if lane.since is None:
            self._hold_back(lane)
        self._settle(lane)

    def resume(self, key: Hashable, now: float) -> None:
        """End that; a wait that it had before goes on if it is not over by now (seconds)."""
        self._paused.discard(key)
        lane = self._lanes.get(key)
        if lane is None or not lane.paused:
            return
        lane.paused, until, lane.resumes_at = False, lane.resumes_at, None
        if not lane.halted:
            self._settle(lane)
            return
        paced, lane.paced = lane.paced, False
        self._take_up(lane)
        if until is not None and until > now:
            lane.paced = paced
            self._suspend(lane, until, 0)
            return
        lane.due = -inf
        self._settle(lane)

    def _halt(self, lane: Lane) -> None:
        """Let a lane wait of which nothing is in work, until it is resumed."""
        paced = False
        if lane.wake_at is not None:
            lane.resumes_at, paced = lane.wake_at, lane.paced
            self._take_up(lane)
        entry = self._lay_down(lane, inf)
        lane.paced = paced  # for when it is resumed; it is counted only while it waits for that
        self._rest(entry, SUSPENDED_BODIES)

    def want_turn(self, key: Hashable, turn: Turn) -> None:
        """Have a lane task taken in the turn of that key's lane."""
        lane = self._lane(key)
        lane.turns = (*lane.turns, turn)
        self._settle(lane)

    def recall(self, key: Hashable, lane_task: object) -> bool:
        """Have a lane task not taken any more; returns False if it does not wait for its turn."""
        lane = self._lanes.get(key)
        left = () if lane is None else tuple(t for t in lane.turns if t.lane_task is not lane_task)
        if lane is None or len(left) == len(lane.turns):
            return False
        lane.turns = left
        self._settle(lane)
        return True

    def _settle(self, lane: Lane) -> None:
        """Note what a change of the lane means for the others."""
        lowest = lane.lowest
        if lowest != lane.low:
            self._lowest.replace(lane.low, lowest)
            lane.low = lowest
        if lane.later or lane.missed is not None:
            self._settle_missed(lane)
        if lane.again:
            still = lane.messages.pending if lane.wake_at is None else 0
            self.again -= max(0, lane.again - still)
            lane.again = min(lane.again, still)
        if lane.paused or lane.set_back[0]:
            self._settle_paused(lane)
        line = self._line_of(lane)
        if line is not lane.line:
            if lane.line is not None:
                lane.line.remove(lane)
            lane.line = line
            if line is not None:
                self._places += 1
                lane.place = self._places
                line.append(lane)
        if line is None and lane.empty and self._lanes.pop(lane.key, None) is not None:
            self.long_keys -= _beyond_short(lane.key)

    def _line_of(self, lane: Lane) -> deque[Lane] | None:
        """Where a lane waits that can go on; None: it cannot."""
        if lane.turns and lane.since is None:
            first = lane.turns[0]
            if first.errand:  # nothing else of it is taken before
                here = lane.messages.pending or not (first.with_bodies and lane.later)
                return self._errands if here else None
            if not lane.paused:
                return self._tasks
        if not lane.ready:
            return None
        return self._aside if self._goes_aside(lane.key) else self._ready

    def _settle_paused(self, lane: Lane) -> None:
        counts = lane.paused and not self._goes_aside(lane.key)
        held = (lane.unfinished, len(lane.later)) if counts else (0, 0)
        before, lane.set_back = lane.set_back, held
        self.paused += (held[0] > 0) - (before[0] > 0)
        self.paused_messages += held[0] - before[0]
        self.paused_deferred += held[1] - before[1]

    def _settle_missed(self, lane: Lane) -> None:
        missed = lane.later[0] if lane.later else None
        if missed != lane.missed:
            if lane.missed is not None:
                self._missed.pop(lane.missed, None)
            lane.missed = missed
            if missed is not None:
                self._missed[missed] = lane
        due = None
        if lane.needs_refill and missed is not None:
            is_old = lane.refill_due is not None and lane.refill_due[1] == missed
            due = lane.refill_due if is_old else (max(lane.due, self._now), missed)
            if lane.wants_bodies:
                due = (-inf, missed)
        if due != lane.refill_due:
            self._refills.replace(lane.refill_due, due)
            lane.refill_due = due
            first = self._refills.value
            self.refill_at = None if first is None else first[0]  # is read without the lock


def _around(spans: Iterator[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [span for span in spans if span is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _beyond_short(key: Hashable) -> int:
    return max(0, key.__sizeof__() - SHORT_KEY)
