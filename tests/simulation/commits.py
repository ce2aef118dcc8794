"""Committed offsets as they reach a broker, offset resets, and what the oracle is told of both."""

import math
from collections import Counter
from dataclasses import dataclass, replace

from orderly import MessageQueue
from tests.simulation.scenario import ACTS, COPIES, LOCK, SETTLED
from tests.simulation.truth import TOPIC, Broken

_A_LOOK = 4.0  # seconds within which a member has looked at a message that its filter left out
_ON_THE_WAY = 1.0  # seconds a commit may have been under way when a reset was told


@dataclass(frozen=True, eq=False)
class Commit:
    """A commit; of the keys in `floors` only what is below the lowest parked message."""

    queue: MessageQueue
    offset: int
    floors: dict

    def of_key(self, key):
        """What is committed of a key."""
        return min(self.offset, self.floors.get(key, self.offset))


class Commits:
    """Told by the witness.

    Args:
        world: has `kernel`, `truth`, `witness`, `scenario` and `note`.
        ledger: what is on record.
        events: Commit is added to them.

    Attributes:
        strict: offsets are set by operators and programs alone, in quiet times.
        reset: queues whose offset an operator or an owner has set, and nobody has committed since
            (or not what was sought): it may be news to those who own them, and who take them.
    """

    def __init__(self, world, ledger, events):
        self._world = world
        self._kernel = world.kernel
        self._truth = world.truth
        settings = dict(world.scenario.settings)
        self._by_key = settings["order"] == "key"
        self._last = settings.get("consume_from") == "last"
        self._ledger = ledger
        self._events = events
        self._reached = Counter()
        self._moved_on = {}  # by process and queue, when it committed further first, as the owner
        self._told = Counter()  # by queue, the last commit among the events
        self.strict = all(
            fault.kind in (*ACTS, *COPIES, "program pause")
            or (fault.kind in ("offset reset", "reset while away", "seek") and fault.at > SETTLED)
            for fault in world.scenario.faults
        )
        self._starts = set()
        self._ends = {}  # by queue, where it ended when the group began
        self._forgotten_at = -math.inf  # when the last offset of the group was lost
        self._looked_at = {}  # by process, when it looked last where queues end
        self._reset_seen = {}  # by queue, when an offset reset was seen to wait, or made, last
        self._undone = {}  # by queue, what was finished before a reset that nobody has committed
        self._doubtful = {}  # by queue that was reset so that an heir may not see it: where to
        self._heirs = {}  # by such a queue, the process that takes it over and may still be told
        self._sought = {}  # by queue that is given up for a seek: the new offset
        self.reset = set()

    def arrives(self, member, header, queue):
        """A commit is about to be stored; returns whether it counts."""
        offset = header.commit_offset
        if header.topic != TOPIC or self.ignored(queue, offset):
            return False
        self._world.note(member, "commits", offset, "in", queue)
        if self._world.generations.is_stale(member.process, queue, offset):
            return False
        self.goes_on(member.process, queue)
        self._begin(member, queue, offset)
        end = self._truth.log(queue).max_offset
        if offset > max(end, self._truth.start[queue]):
            raise Broken("commit past unfinished", f"{queue}: {offset}, but it ends at {end}")
        missing = self._truth.unsettled(queue, offset)
        if missing:
            raise Broken("commit past unfinished", f"{queue}: {offset}, but {missing} are not done")
        if offset > self._reached[queue]:
            self._moved_on.setdefault((member.process, queue), self._kernel.now)
        self._check_direction(member, queue, offset)
        self._ledger.committed(member, queue, offset)
        self.reset.discard(queue)
        self._doubtful.pop(queue, None)
        self._heirs.pop(queue, None)
        self._truth.unsure.discard(queue)
        if not self._truth.skipped[queue]:  # a batch under way may have what was passed over
            self._tell(queue, offset)
        return True

    def _begin(self, member, queue, offset):
        """The broker has no offset of the group: it begins here, unless it is known to have begun.

        By key that is on record; by queue the last owner knows it. And wherever it begins, nothing
        is passed over that was stored after the group's first commit in the topic.
        """
        truth, process = self._truth, member.process
        if truth.has_stored(queue):
            return
        knows = self._by_key or self._ledger.last_owner(queue) is process
        if queue in self._starts and knows:
            return
        if not any(map(truth.has_stored, truth.queues())) and self._takes_for_new(process):
            self._ends = {each: truth.log(each).max_offset for each in truth.queues()}
        later = queue not in self._ends
        self._check_begin(member, queue, offset)
        self._starts.add(queue)
        truth.start[queue] = max(truth.start[queue], min(offset, self._ends.get(queue, 0)))
        self._world.happened["later queue"] += later and truth.log(queue).max_offset > 0
        self._world.happened["passed over by a new group"] += truth.start[queue] > 0
        self._world.note(member, "begins at", offset, "in", queue)

    def _takes_for_new(self, process):
        """Whether the group is new, or a member cannot know better.

        By queue, one that looked when no broker had an offset any more.
        """
        fresh = self._looked_at.get(process, -math.inf) >= self._forgotten_at
        return not self._ends or (not self._by_key and fresh)

    def _check_begin(self, member, queue, offset):
        """Where nothing went wrong yet a new group begins where its first member saw the end."""
        world = self._world
        wrong = [fault.at for fault in world.scenario.faults if fault.code != LOCK]
        undisturbed = self._kernel.now < world.began + min(wrong, default=math.inf)
        if undisturbed and self._last and offset < world.ends_at_join.get(queue, 0):
            text = f"{member}: {offset} of {queue}, which ended at {world.ends_at_join[queue]}"
            raise Broken("new group replays", text)

    def looked(self, process):
        """A member asks where queues end."""
        self._looked_at[process] = self._kernel.now

    def archive(self, former):
        """The topic is deleted: commits of its queues are of the past."""
        for queue in former:
            self._reached.pop(queue, None)
            self._told.pop(queue, None)
            self._reset_seen.pop(queue, None)
            self._sought.pop(queue, None)
            self._doubtful.pop(queue, None)
            self._heirs.pop(queue, None)
            self.reset.discard(queue)
            self._ledger.begin_anew(queue)
        for number, event in enumerate(self._events):
            if isinstance(event, Commit):
                past = former.get(event.queue, event.queue)
                self._events[number] = replace(event, queue=past)

    def has_passed(self, process, queue):
        """Whether an owner has gone past a message, and since had the time to look at it."""
        return self._kernel.now - self._moved_on.get((process, queue), math.inf) > _A_LOOK

    def went_back(self, queue):
        """The broker was killed: it has the offset that it had written to its disk."""
        if not any(map(self._truth.has_stored, self._truth.queues())):
            self._forgotten_at = self._kernel.now
        stored = self._truth.stored(queue)
        stale = self._world.generations.went_back(queue, stored, self._reached[queue])
        self._reached[queue] = min(self._reached[queue], stored)
        # A higher one is of before a reset, which the broker forgot: nothing is done by that.
        self._ledger.went_back(queue, 0 if stale else self._reached[queue])
        self._tell(queue, min(self._told[queue], stored))

    def parked_changed(self, queue):
        """Other keys are parked than before: of those no more counts as committed."""
        self._tell(queue, self._told[queue])

    def _tell(self, queue, offset):
        self._told[queue] = offset
        self._events.append(Commit(queue, offset, self._ledger.parked.floors(queue)))

    def _check_direction(self, member, queue, offset):
        """Commits rise; where other things go wrong a reset may cross with one of them."""
        known = self._reached[queue] > self._truth.start[queue]
        if known and offset < self._reached[queue] and (self.strict or queue not in self.reset):
            text = f"{member} in {queue}: from {self._reached[queue]} to {offset}"
            raise Broken("commit goes back", text)
        self._reached[queue] = offset

    def taken(self, process, queue):
        """A member begins to own a queue: where the last one went on from has been committed."""
        self._sought.pop(queue, None)
        self._moved_on.pop((process, queue), None)
        self.goes_on(process, queue)

    def confirmed(self, process, queue):
        """An heir of a queue reads what is on record, and which offset the broker has.

        If nobody has committed since a reset, nor told of it on record, that may look as if the
        broker had been killed; unless the broker tells the heir of the reset as it asks.
        """
        target, _ = self._doubtful.get(queue, (None, ()))
        if target == self._truth.stored(queue) and not self._ledger.agrees(queue, target):
            self._heirs[queue] = process
            if not self._truth.reset_waits(queue):
                self.goes_on(process, queue)

    def recorded(self, queue):
        """A state record is stored: the reset that it tells of has undone what was finished."""
        if queue in self.reset and self._ledger.agrees(queue, self._reached[queue]):
            self._undone[queue] = set()

    def told(self, process, queue):
        """The broker answers a member's question with an offset reset, which it does once."""
        if (queue, process) in self._heirs.items():
            del self._heirs[queue]

    def goes_on(self, process, queue):
        """An heir that was not told of a reset goes by what is on record.

        What was finished before may count then, or come again.
        """
        if (queue, process) not in self._heirs.items():
            return
        del self._heirs[queue]
        _, passed = self._doubtful.pop(queue)
        self._world.happened["reset, excused"] += 1
        self._world.note("nobody can know whether", queue, "was reset, or its broker killed")
        self._truth.finished[queue] |= self._undone[queue]
        self._truth.skipped[queue] |= passed
        self._truth.unsure.add(queue)

    def ignored(self, queue, offset=None):
        """Whether a commit does not count, for the offset was reset just now.

        Who seeks commits the new offset before it gives the queue up; any other offset, and what
        is on record with it, is of a save that was under way.
        """
        if queue in self._sought and offset != self._sought[queue]:
            return True
        if self._truth.reset_waits(queue):
            self._reset_seen[queue] = self._kernel.now
        return self._kernel.now - self._reset_seen.get(queue, -math.inf) < _ON_THE_WAY

    def was_sought(self, queue, target, *, given_up):
        """A member goes on from another offset; what it commits before that is under way.

        Where it is there already it does not give the queue up.
        """
        self.was_reset(queue, target)
        self._reset_seen.pop(queue)  # no broker was told
        if given_up:
            self._sought[queue] = target

    def was_reset(self, queue, target):
        """An operator reset the offset of a queue."""
        truth, done = self._truth, self._truth.finished[queue]
        self._world.witness.repeats.asked_for(queue, target)
        # Else nothing is ahead, now or as far as the record knows.
        ahead = truth.unfinished(queue, truth.log(queue).max_offset) or self._ledger.is_ahead(queue)
        doubtful = bool(ahead) and self._ledger.may_look_forgotten(queue, target)
        self._undone[queue] = done | (self._undone[queue] if queue in self.reset else set())
        self._sought.pop(queue, None)
        self._reset_seen[queue] = self._kernel.now
        self.reset.add(queue)
        self._reached[queue] = target
        self._ledger.forget(queue)
        for offset in truth.unsettled(queue, target):
            truth.skipped[queue].add(offset)
        latest = self._world.witness.latest
        for offset in range(max(self._told[queue], truth.stored(queue)), target):
            if (delivery := latest.get((queue, offset))) is not None:
                delivery.success = True  # it counts as done, until the offset goes back again
                # In its turn: the next is behind the target.
                self._events.append(replace(delivery, ended=len(self._events)))
        again = {offset for offset in truth.skipped[queue] if offset >= target}
        self._ledger.parked.unheard |= {(queue, offset) for offset in again}
        self._doubtful.pop(queue, None)
        self._heirs.pop(queue, None)
        if doubtful:
            self._doubtful[queue] = target, again
        if self.strict:
            truth.finished[queue] = {offset for offset in done if offset < target}
            truth.skipped[queue] -= again
        else:
            self._world.happened["reset, unsure"] += 1
            truth.unsure.add(queue)
        if target <= self._told[queue]:  # what is handled until the members follow is not below it
            self._tell(queue, target)
