"""Owners of one queue, paused, cut off and killed between any two steps, against the truth.

Owners append, lock, confirm, read, finish messages and commit as the library does. Any call may be
lost before or after it is carried out, or be carried out much later, when its sender is long gone.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    multiple,
    rule,
    run_state_machine_as_test,
)

from orderly.errors import LockLost, OrderlyError, RequestTimeout
from orderly.ordering import state_records
from orderly.ordering.broker_calls import (
    AppendRecord,
    LockQueues,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
)
from orderly.ordering.offset_runs import finished_runs
from orderly.ordering.ownership import take_over
from orderly.ordering.parking import ParkingState
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.state_record import RUN_BYTES, Confirm, decode_record
from tests.support.owners import PARK_QUEUE, QUEUE, STATE_QUEUE, StateBroker

MESSAGES = 24
FATES = st.sampled_from(["done"] * 5 + ["reply lost", "request lost", "late"])
TROUBLES = st.one_of(
    st.just(()),
    st.builds(lambda steps, fate: ("done",) * steps + (fate,), st.integers(0, 4), FATES),
)
OFFSETS = st.sets(st.integers(0, MESSAGES - 1), max_size=6)
LOCK = LockQueues(QUEUE.broker_name, (QUEUE,))
IDLE = "idle"


def offsets_of(runs):
    return {offset for start, end in runs for offset in range(start, end)}


def parked_in(offsets):
    """Every fifth message is not handled: it finishes by being parked, with a key of its own."""
    return {offset for offset in offsets if offset % 5 == 0}


@dataclass(eq=False)
class Owner:
    """One member: its program is a dialogue that waits, when it is idle, for what to do next."""

    name: str
    life: Any = None
    call: Any = None
    inherited: Any = None
    finished: set = field(default_factory=set)
    acknowledged: set = field(default_factory=set)
    parked: set = field(default_factory=set)
    at_fence: set | None = None  # what it had finished when a higher token was confirmed

    @property
    def token(self):
        return self.inherited.memory.token

    def progress(self):
        low = next(offset for offset in range(MESSAGES + 1) if offset not in self.finished)
        runs = finished_runs(sorted(set(range(MESSAGES)) - self.finished), low, MESSAGES)
        self.parked |= parked_in(self.finished)
        return low, runs, ParkingState(tuple(ParkedKey(n, n, n) for n in sorted(self.parked)))

    def live(self):
        granted = yield LOCK
        if QUEUE not in granted:
            return
        self.inherited = yield from take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, self.name, "first")
        if self.inherited is None:
            return
        self.finished = set(range(self.inherited.start)) | offsets_of(self.inherited.finished)
        self.parked = {each.key for each in self.inherited.kept.parked}
        self.acknowledged = set(self.finished) if not self.inherited.damaged else set()
        possible = {self.inherited.fence.written}
        while True:
            order = yield IDLE
            try:
                yield from self.commit(possible)
                if order == "close":
                    low, runs, kept = self.progress()
                    yield from self.inherited.memory.remember(low, low, runs, kept, closed=True)
                    yield UnlockQueues(QUEUE.broker_name, (QUEUE,))
                    return
            except RequestTimeout:
                pass

    def commit(self, possible):
        granted = yield LOCK
        stored = yield QueryOffset(QUEUE)
        if QUEUE not in granted or stored not in possible:
            raise LockLost("somebody else's")
        low, runs, kept = self.progress()
        finished = set(self.finished)
        if self.inherited.memory.due(low, stored, runs, kept):
            yield from self.inherited.memory.remember(low, stored, runs, kept)
            self.acknowledged = finished
        if low != stored:
            possible.add(low)
            yield SaveOffset(QUEUE, low)


class Ownership(RuleBasedStateMachine):
    members = Bundle("members")
    in_flight = Bundle("in_flight")

    def __init__(self):
        super().__init__()
        self.broker = StateBroker(lags=True)
        self.owners = []
        self.confirmed = []  # tokens
        self.reset_below = 0  # everything below may have been skipped on purpose
        self.lossy = False  # what was acknowledged may be gone
        self.disturbed = False  # the committed offset is not the last owner's doing

    # --- what members do -----------------------------------------------------------------------

    @rule(target=members)
    def new_member(self):
        owner = Owner(f"member-{len(self.owners)}")
        self.owners.append(owner)
        owner.life = owner.live()
        self._go_on(owner, None)
        return owner

    @rule(target=in_flight, owner=members, fate=FATES)
    def one_step(self, owner, fate):
        if owner.call is None:
            return multiple()
        return multiple(*self._perform(owner, fate))

    @rule(target=in_flight, owner=members, trouble=TROUBLES)
    def all_steps(self, owner, trouble):
        late = []
        for fate in (*trouble, *["done"] * 200):
            if owner.call is not None and owner.call is not IDLE:
                late += self._perform(owner, fate)
        return multiple(*late)

    @rule(owner=members, offsets=OFFSETS)
    def messages_finish(self, owner, offsets):
        if owner.inherited is not None:
            owner.finished |= offsets

    @rule(owner=members, order=st.sampled_from(["commit", "commit", "close"]))
    def begin(self, owner, order):
        if owner.call is IDLE:
            self._go_on(owner, order)

    @rule(target=in_flight, owner=members, offsets=OFFSETS, trouble=TROUBLES)
    def work(self, owner, offsets, trouble):
        self.messages_finish(owner, offsets)
        self.begin(owner, "commit")
        return self.all_steps(owner, trouble)

    @rule(target=members, offsets=OFFSETS)
    def somebody_else_takes_over(self, offsets):
        self.broker.owner = None
        owner = self.new_member()
        self.all_steps(owner, ())
        self.messages_finish(owner, offsets)
        return owner

    @rule(owner=consumes(members))
    def is_killed(self, owner):
        owner.call = None

    # --- what the broker and the network do ----------------------------------------------------

    @rule()
    def a_lease_runs_out(self):
        self.broker.owner = None

    @rule(late=consumes(in_flight))
    def a_late_request_arrives(self, late):
        owner, call = late
        if isinstance(call, SaveOffset):
            self.disturbed = True
        self._carry_out(owner, call)

    @rule(block=st.sampled_from([1, 3, 32, 32]))
    def everything_becomes_visible(self, block):
        self.broker.shown = len(self.broker.log)
        self.broker.block = block

    # --- the truth -----------------------------------------------------------------------------

    def _perform(self, owner, fate):
        call = owner.call
        if call is IDLE:
            return []
        late = []
        if fate in ("done", "reply lost"):
            answer = self._carry_out(owner, call)
        elif fate == "late" and isinstance(call, AppendRecord | SaveOffset):
            late = [(owner, call)]
        if fate == "done":
            self._go_on(owner, answer)
        else:
            self._go_on(owner, RequestTimeout("no answer"))
        return late

    def _carry_out(self, owner, call):
        answer = self.broker.answer(call, owner.name)
        if isinstance(call, SaveOffset):
            self.disturbed = owner is not self._rightful()
        if isinstance(call, AppendRecord):
            self._note(decode_record(call.body))
        return answer

    def _note(self, record):
        if not isinstance(record, Confirm):
            return
        self.confirmed.append(record.token)
        for other in self.owners:
            if other.inherited is not None and other.token < record.token:
                self._fence(other)

    def _fence(self, owner):
        if owner.at_fence is None:
            owner.at_fence = set(owner.finished)

    def _rightful(self):
        """Who confirmed last and found itself the owner."""
        inherited = [owner for owner in self.owners if owner.inherited is not None]
        return max(inherited, key=lambda owner: owner.token, default=None)

    def _predecessor(self, owner):
        """The last one before that was the owner when it knew of it."""
        before = [
            other
            for other in self.owners
            if other.inherited is not None
            and other is not owner
            and other.at_fence is not None
            and other.token < owner.token
        ]
        return max(before, key=lambda other: other.token, default=None)

    def _go_on(self, owner, answer):
        was_owner = owner.inherited is not None
        try:
            if isinstance(answer, OrderlyError):
                owner.call = owner.life.throw(answer)
            else:
                owner.call = owner.life.send(answer)
        except (StopIteration, OrderlyError):
            owner.call = None
        if owner.inherited is not None and not was_owner:
            self._check_inheritance(owner)

    def _check_inheritance(self, owner):
        inherited = owner.inherited
        if (
            max(self.confirmed) > owner.token
        ):  # nothing it writes counts; and it would have seen it, had it been near
            owner.at_fence = set()
            return
        others = [o for o in self.owners if o.inherited is not None and o is not owner]
        assert all(other.token < owner.token for other in others), "tokens rise"
        before = self._predecessor(owner)
        allowed = before.at_fence if before else set()
        ahead = offsets_of(inherited.finished)
        assert ahead <= allowed, "nothing counts as finished that the former owner had not finished"
        assert set(range(inherited.fence.written, inherited.start)) <= allowed, "nothing is skipped"
        by_anybody = set().union(*(other.finished for other in others))
        assert set(range(inherited.start)) - set(range(self.reset_below)) <= by_anybody
        if not self.disturbed and not self.lossy:
            assert not inherited.reset, "no reset is announced if there was none"
            kept = before.acknowledged if before else set()
            finished = ahead | set(range(inherited.start))
            assert kept <= finished, "what was acknowledged is kept"
            parked = {each.key for each in inherited.kept.parked}
            assert parked_in(finished) <= parked, "no offset passes a parked message unrecorded"
            handed_on = {each.key for each in before.inherited.kept.parked} if before else set()
            assert parked <= parked_in(allowed) | handed_on, "nothing is parked that nobody parked"


class WithResets(Ownership):
    """The same, and somebody sets the committed offset."""

    @rule(offset=st.integers(0, MESSAGES - 1))
    def a_reset(self, offset):
        self.broker.offset = offset
        self.reset_below = max(self.reset_below, offset)
        self.disturbed = True


class WithLoss(WithResets):
    """The same, and records are damaged or expire."""

    @rule(data=st.data())
    def a_record_is_damaged(self, data):
        if self.broker.log:
            place = data.draw(st.integers(0, len(self.broker.log) - 1))
            self.broker.log[place] = b"damaged"
            self.lossy = True

    @rule(data=st.data())
    def records_expire(self, data):
        taking = [o for o in self.owners if o.call not in (None, IDLE) and o.inherited is None]
        if not taking:
            self.broker.floor = data.draw(st.integers(self.broker.floor, self.broker.shown))
            self.lossy = True


@pytest.fixture(autouse=True)
def _small_records(monkeypatch):
    """Several chunks and changes for few messages."""
    monkeypatch.setattr(state_records, "RUNS_A_RECORD", 2)
    monkeypatch.setattr(state_records, "_RECORD_BYTES", 2 * RUN_BYTES)
    monkeypatch.setattr(state_records, "MAX_CHANGES", 3)


@pytest.mark.parametrize("machine", [Ownership, WithResets, WithLoss])
def test_owners_inherit_what_was_finished_and_nothing_else(machine):
    run_state_machine_as_test(
        machine, settings=settings(max_examples=80, stateful_step_count=50, deadline=None)
    )
