"""Owners of one queue over topics that are made anew and brokers that go back, against the truth.

Owners take over, finish messages and commit by the library's dialogues, and are killed between any
two steps. `test_ownership_model.py` has several at a time; here the broker is what is wrong.
"""

from dataclasses import dataclass
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from orderly.errors import LockLost, OrderlyError
from orderly.ordering.broker_calls import SaveOffset, converse
from orderly.ordering.fence import FORGOTTEN
from orderly.ordering.offset_runs import finished_runs
from orderly.ordering.ownership import (
    CommitProgress,
    NotOnRecord,
    Recreated,
    commit,
    hand_on,
    take_over,
)
from orderly.ordering.parking import ParkingState
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.state_record import Entry, decode_record
from tests.support.owners import PARK_QUEUE, QUEUE, STATE_QUEUE, StateBroker, parked_message

MOST = 30  # messages of a generation
OFFSETS = st.sets(st.integers(0, MOST - 1), min_size=1, max_size=6)
STEPS = st.none() | st.integers(0, 9)  # after so many the process is killed


class Killed(BaseException):
    """The process ended."""


@dataclass(eq=False)
class Owner:
    """`generation` is that of the topic when it took the queue: the truth, not what it counts."""

    name: str
    generation: int
    found: object
    finished: set
    parked: dict
    state_lost: bool = False

    @property
    def progress(self):
        low = next((n for n in range(MOST) if n not in self.finished), MOST)
        runs = finished_runs(sorted(set(range(MOST)) - self.finished), low, MOST)
        kept = ParkingState(tuple(self.parked[key] for key in sorted(self.parked)))
        return CommitProgress(low, runs, kept=kept)


class OwnersOverGenerations(RuleBasedStateMachine):
    """The truth, of the present generation.

    `done`: handled, or passed over for a reason that has a name below. `recorded`: finished, and
    acknowledged to be known by the next owner; `on_record`: what of it the newest entry tells.
    `had`: (since when, offset) as the broker had it committed; `former`: what it has on its disk of
    the generation before, `former_was_set`: by an operator. `blind`: nothing could have proven
    that the topic was made anew. `disturbed`: an owner may lose the queue to somebody's doing.
    """

    def __init__(self):
        super().__init__()
        self.broker = StateBroker(end=10)
        self.names, self.now, self.owner = count(), 0.0, None
        self.generation, self.entry_of, self.entry = 0, None, None
        self.tokens, self.parked = [-1], set()
        self.begins(0)

    def begins(self, offset):
        self.done, self.recorded, self.on_record = set(), set(), set()
        self.had, self.acknowledged = [(self.now, offset)], self.now
        self.former, self.former_was_set = None, False
        self.blind = self.disturbed = self.offset_was_set = False

    # --- what owners do ------------------------------------------------------------------------

    @precondition(lambda self: self.owner is None)
    @rule(steps=st.none() | st.integers(0, 16))
    def takes_over(self, steps):
        name, entry, stored = f"m{next(self.names)}", self.entry, self.broker.offset
        written = self.newest_entry()
        self.broker.owner = name
        dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, name, "first", now=self.now)
        try:
            found = self.run(dialogue, name, steps)
        except (OrderlyError, Killed) as error:
            fine = isinstance(error, Killed) or self.broker.missing
            assert fine, "a take-over fails only for want of the state topic"
            assert self.newest_entry() == written, "it ends with its record"
            if entry is not None and self.entry_of != self.generation:
                restored = self.broker.offset != stored  # the former one's, if nothing was proven
                self.blind = self.blind or (restored and not self.can_be_seen(entry))
            return
        self.check(found, entry, stored)
        finished = set(range(found.start)) | offsets_of(found.finished)
        parked = {each.key: each for each in found.kept.parked}
        self.owner = Owner(name, self.generation, found, finished, parked)
        # Of what was committed with nothing finished ahead no record tells the heir. A broker that
        # goes back there looks like a reset: it is handled again from there on.
        ours = found.fence.window
        self.had = [each for each in self.had if each[1] in ours] or [(self.now, found.begin.start)]
        if found.begin.former is None or not self.offset_was_set:
            self.disturbed = False
        if self.newest_entry() != written:
            self.entry, self.entry_of = self.newest_entry(), self.generation
            self.on_record = set(finished)

    @precondition(lambda self: self.owner is not None and not self.stale)
    @rule(offsets=OFFSETS, quickly=st.booleans())
    def works(self, offsets, quickly):
        """Handle some; `quickly`: with a commit after each, as if its key were parked."""
        for offset in sorted(offsets):
            owner = self.owner
            if owner is None or not self.broker.minimum <= offset < self.broker.end:
                continue
            if offset not in owner.finished:
                self.pulls(owner)
                owner.finished.add(offset)
                self.done.add(offset)
                if offset % 5 == 0:
                    self.park(owner, offset)
                if quickly:
                    self.now += 0.01
                    self.commits(None)

    def pulls(self, owner):
        """The first message that is pulled becomes the landmark, where there is none."""
        fence, first = owner.found.fence, max(owner.found.start, self.broker.minimum)
        if fence.landmark is None and first < self.broker.end:
            fence.landmark = self.broker.landmark(first)

    @precondition(lambda self: not self.broker.missing)
    @rule(
        messages=st.integers(1, 9),
        pause=st.sampled_from([0.0, 4.0, 12.0]),
        then=st.sampled_from(["goes on", "is killed", "closes"]),
    )
    def the_usual(self, messages, pause, then):
        """Somebody takes the queue and handles the next messages, with a commit after each."""
        if self.owner is not None and self.stale:
            self.owner = None
        if self.owner is None:
            self.takes_over(None)
        for _ in range(messages):
            owner = self.owner
            todo = range(self.broker.minimum, self.broker.end)
            offset = next((n for n in todo if owner and n not in owner.finished), None)
            if offset is not None:
                self.works({offset}, quickly=True)
                self.now += pause
        if self.owner is not None and then != "goes on":
            self.closes(None) if then == "closes" else self.is_killed()

    def park(self, owner, offset):
        key, at = f"{self.generation}-{offset}", len(self.broker.park)
        self.broker.park.append(parked_message(key, offset, at))
        owner.parked[key] = ParkedKey(key, offset, at, generation=owner.found.memory.generation)

    @precondition(lambda self: self.owner is not None)
    @rule(steps=STEPS)
    def commits(self, steps):
        self.carry_on(commit, steps)

    @precondition(lambda self: self.owner is not None)
    @rule(steps=STEPS)
    def closes(self, steps):
        self.carry_on(hand_on, steps)
        self.owner = None

    @precondition(lambda self: self.owner is not None)
    @rule()
    def is_killed(self):
        self.owner = None

    def carry_on(self, program, steps):
        owner, written, stored = self.owner, self.newest_entry(), self.broker.offset
        stale, before = self.stale, len(self.broker.log)
        if not stale:
            owner.finished |= set(range(self.broker.minimum))  # expired: the pull passed them over
        finished, progress = set(owner.finished), owner.progress
        fence = owner.found.fence
        proof = fence.landmark is not None and self.broker.minimum <= fence.landmark.offset
        dialogue = program(QUEUE, progress, fence, owner.found.memory, now=self.now)
        try:
            told = self.run(dialogue, owner.name, steps)
        except (OrderlyError, Killed) as error:
            told = error
        if isinstance(told, Killed | LockLost):
            self.owner = None
        if isinstance(told, Recreated):
            assert stale, "it was made anew"
        elif isinstance(told, LockLost):
            assert stale or self.disturbed, "a broker that went back is nobody's reset"
        if stale and stored is None and proof:
            assert self.broker.offset in (None, self.broker.minimum)
            self.check_beginning(owner, told, self.broker.log[before:])
            return
        if stale:
            self.blind = self.blind or self.broker.offset != stored
        if self.newest_entry() != written and not owner.state_lost:  # or it does not count
            self.entry, self.entry_of = self.newest_entry(), owner.generation
            told_of = {n for n in finished if n < self.entry.low or progress.finished}
            self.on_record = set() if stale else told_of
        if not stale and (told is None or isinstance(told, NotOnRecord)):
            self.acknowledged = self.now  # or the broker has shown that it has it already
            self.parked = set(owner.parked)
            lost = owner.state_lost or told is not None
            known = set(range(progress.offset)) if lost else finished
            self.recorded = known & set(range(self.broker.end))  # a cut log may lack the others

    def check_beginning(self, owner, told, written):
        """Nothing of the former one goes on record, but that there is a new one, with its keys."""
        if not owner.state_lost:
            assert isinstance(told, Recreated | Killed), "it is found out before anything is said"
        entries = [each for each in map(decode_record, written) if isinstance(each, Entry)]
        for entry in entries:
            assert (entry.low, entry.runs) == (self.broker.minimum, ())
            assert entry.generation == owner.found.memory.generation
            assert {each.key for each in entry.parked} == set(owner.parked)
        if entries and not owner.state_lost:  # or it does not count
            self.entry, self.entry_of = entries[-1], self.generation
            self.on_record = set()
        elif isinstance(told, Recreated):
            assert owner.state_lost, "it goes on record"

    # --- what brokers and operators do ---------------------------------------------------------

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 14.0, 16.0, 1000.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule(more=st.integers(1, 10))
    def messages_come(self, more):
        self.broker.end = min(MOST, self.broker.end + more)

    @rule(data=st.data())
    def messages_expire(self, data):
        if self.broker.minimum < self.broker.end:
            self.broker.minimum = data.draw(st.integers(self.broker.minimum, self.broker.end - 1))

    @rule(data=st.data())
    def the_log_is_cut(self, data):
        """What is stored there later has the same offsets, and is passed over by this name.

        An offset beyond the log may be of a former generation, too: the record counts then, and
        what was finished since is handled again.
        """
        if self.broker.minimum + 1 < self.broker.end:
            end = data.draw(st.integers(self.broker.minimum + 1, self.broker.end))
            self.broker.end = end
            self.done |= set(range(end, MOST))
            self.recorded -= set(range(end, MOST))
            self.on_record -= set(range(end, MOST))
            if self.entry is not None and (self.broker.offset or 0) > end:
                self.recorded &= self.on_record

    @rule(data=st.data())
    def the_broker_goes_back(self, data):
        """Killed, to an offset it had in the 15 s before the last that it acknowledged."""
        began = self.acknowledged - FORGOTTEN
        kept = [offset for since, offset in self.had if since <= began][-1:]
        kept += [offset for since, offset in self.had if since > began]
        self.goes_back_to(data.draw(st.sampled_from(kept)))

    @rule()
    def the_broker_forgets_the_offset(self):
        self.goes_back_to(None)

    def goes_back_to(self, offset):
        """What had no record, as nothing was finished ahead of it, may be repeated.

        And where the record tells of nothing finished ahead, the lower offset counts.
        """
        self.broker.offset, self.had = offset, [(self.now, offset)]
        below, told = set(range(offset or 0)), self.on_record
        if self.entry is not None and offset is not None and not self.tells_of_runs:
            known = offset in (self.entry.low, self.entry.previous_low)
            told = told if known or offset > self.entry.low else told & below
        self.recorded = told | (self.recorded & below)

    @rule(offset=st.integers(0, MOST))
    def an_operator_sets_the_offset(self, offset):
        """What is below is passed over on purpose, what is above comes again."""
        self.broker.offset, self.had = offset, [(self.now, offset)]
        self.done |= set(range(offset))
        self.recorded, self.on_record = set(), set()
        self.disturbed = self.offset_was_set = True

    @rule(end=st.integers(0, MOST), minimum=st.sampled_from([0, 0, 0, 3]))
    def the_topic_is_made_anew(self, end, minimum):
        before, was_set = self.broker.offset, self.offset_was_set
        self.broker.made_anew(max(end, minimum), minimum)
        self.generation += 1
        self.begins(None)
        if before is not None:  # it is on the broker's disk still
            self.had.insert(0, (self.now - FORGOTTEN, before))
            self.former, self.former_was_set = before, was_set

    @precondition(lambda self: not self.broker.missing)
    @rule(messages=st.integers(1, 9), pause=st.sampled_from([0.0, 4.0]), data=st.data())
    def the_topic_is_made_anew_under_its_owner_and_the_broker_killed(self, messages, pause, data):
        """It has what was committed to the former one on its disk still."""
        self.the_usual(messages, pause, "goes on")
        self.the_topic_is_made_anew(MOST, 0)
        if self.owner is not None:
            self.commits(data.draw(STEPS))
        self.the_broker_goes_back(data)

    @rule(missing=st.booleans())
    def the_state_topic_is_deleted(self, missing):
        """What only it told is told no more: only the offset is left, and what is parked."""
        self.broker.state_made_anew()
        self.broker.missing = missing
        self.entry, self.entry_of, self.on_record = None, None, set()
        self.recorded &= set(range(self.broker.offset or 0))
        self.disturbed = True
        if self.owner is not None:
            self.owner.state_lost = True

    @precondition(lambda self: self.broker.missing)
    @rule()
    def the_state_topic_is_made_again(self):
        self.broker.missing = False

    # --- the truth -----------------------------------------------------------------------------

    @property
    def stale(self):
        return self.owner.generation != self.generation

    @property
    def tells_of_runs(self):
        return any(offset >= self.entry.low for offset in self.on_record)

    def newest_entry(self):
        records = map(decode_record, reversed(self.broker.log))
        return next((each for each in records if isinstance(each, Entry) and each.complete), None)

    def run(self, dialogue, name, steps):
        taken = count()

        def perform(call):
            if steps is not None and next(taken) >= steps:
                raise Killed
            answer = self.broker.answer(call, name)
            if isinstance(call, SaveOffset):
                self.had.append((self.now, call.offset))
                self.acknowledged = self.now
            return answer

        return converse(dialogue, perform)

    def check(self, found, entry, stored):
        memory, minimum = found.memory, self.broker.minimum
        assert memory.fencing_token > self.tokens[-1], "tokens rise, also over state topics"
        self.tokens.append(memory.fencing_token)
        assert self.parked <= {each.key for each in found.kept.parked}, "parked keys stay parked"
        counted = 0 if entry is None else entry.generation
        if entry is not None and self.entry_of != self.generation:
            assert self.blind or not self.recorded
            seen = self.can_be_seen(entry)
            self.blind = self.blind or not seen
            if seen:
                assert (found.begin.former, memory.generation) == (entry.low, counted + 1)
                assert found.finished == (), "runs of the former one never count"
                assert found.start == minimum, "the record is the latest word"
                assert all(p.generation < memory.generation for p in found.kept.parked)
        else:
            assert (found.begin.former, memory.generation) == (None, counted)
        # An offset of the former one that is on no record: nothing tells that it is a former one.
        if stored is not None and stored == self.former and (entry is None or self.former_was_set):
            self.blind = True
        passed = set(range(found.start)) | offsets_of(found.finished)
        if not self.blind:
            assert passed <= self.done | set(range(minimum)), "nothing unfinished is passed over"
        if entry is not None and entry.low < (stored or 0) and stored in entry.window:
            return  # progress to an offset that a killed broker may have brought back: it repeats
        assert self.recorded <= passed, "nothing that is finished on record comes again"

    def can_be_seen(self, entry):
        """Whether the new generation can be proven, by what `promises.md` says."""
        return entry.landmark is not None and self.broker.minimum <= entry.landmark[0]


def offsets_of(runs):
    return {offset for start, end in runs for offset in range(start, end)}


def test_positions_of_one_generation_never_count_in_another():
    run_state_machine_as_test(
        OwnersOverGenerations,
        settings=settings(max_examples=250, stateful_step_count=40, deadline=None),
    )
