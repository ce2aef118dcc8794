"""Random histories of one held queue, by queue and by key: pulls, results, drops, resets, time.

The model knows of each offset whether its handling ended while the queue was ours.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from orderly.ordering import lanes as lanes_module
from orderly.ordering.drop import NOT_OURS, Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from orderly.ordering.state.runs import finished_runs
from orderly.ordering.window import Gate
from tests.support.messages import QUEUE, message

TRUST = 30.0
START = 10
RUNS, SPAN, CACHED = 2, 30, 8


def key_of(offset):
    return "abc"[offset % 3]


def offsets(batch):
    return [taken.queue_offset for taken in batch.messages]


class OwnedQueueMachine(RuleBasedStateMachine):
    by_key = False

    @initialize(ahead=st.sets(st.integers(START + 1, START + 15)))
    def taken(self, ahead):
        self.now = 0.0
        self.inherited = ahead if self.by_key else set()
        self.queue = OwnedQueue(
            QUEUE,
            START,
            Lease(0.0, TRUST),
            max_messages=CACHED,
            max_bytes=10_000,
            by_key=self.by_key,
            max_runs=RUNS if self.by_key else 1,
            max_span=SPAN,
            finished=runs_of(self.inherited),
        )
        self.stored = set()  # offsets that have a message; the others were filtered
        self.done = set(self.inherited)  # handled, or passed by the filter
        self.work = []
        self.in_hand = {}  # lane -> offsets in hand
        self.delivered = {}
        self.runs = 0
        self.committed = START
        self.reset_to = None

    # --- what happens --------------------------------------------------------------------------

    @rule(seconds=st.floats(0, 12))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def renewed(self):
        if self.queue.keeps_lock(self.now):
            self.queue.lease.renew(self.now)

    @rule(kinds=st.lists(st.booleans(), max_size=5))
    def pull(self, kinds):
        """`kinds`: whether each of the next offsets passes the filter."""
        before = self.queue.next_pull
        if self.queue.pull_gate(self.now) is not Gate.OPEN:
            return
        end = before + len(kinds)
        found = [before + place for place, passes in enumerate(kinds) if passes]
        self.stored |= set(found)
        self.done |= set(range(before, end)) - set(found)
        keys = [key_of(offset) for offset in found] if self.by_key else None
        self.queue.pulled([message(offset) for offset in found], end, end, keys)

    @rule()
    def a_pull_fails(self):
        if self.queue.pull_gate(self.now) is Gate.OPEN:
            self.queue.pull_failed()

    @rule()
    def a_run_is_asked_for(self):
        if self.queue.request_run():
            self.runs += 1
        assert self.runs <= (RUNS if self.by_key else 1)

    @precondition(lambda self: self.runs > len(self.work))
    @rule(limit=st.integers(1, 3))
    def take(self, limit):
        batch = self.queue.take(limit, self.now)
        if batch is None:
            self.runs -= 1
            return
        assert self.queue.lease.valid(self.now)
        assert self.queue.dropped is None
        lane = batch.key
        assert lane not in {other.key for other in self.work}
        taken = offsets(batch)
        assert not set(taken) & self.done, "what is finished is not handed out, nor what was"
        expected = [
            o
            for o in sorted(self.stored - self.done)
            if self._lane(o) == lane and o not in self.in_hand.get(lane, ())
        ]
        assert taken == expected[: len(taken)], "each lane in order, and nothing left out"
        self.in_hand.setdefault(lane, []).extend(taken)
        self.work.append(batch)

    @precondition(lambda self: self.work)
    @rule(
        data=st.data(), disposition=st.sampled_from(Disposition), wait=st.sampled_from([None, 5.0])
    )
    def finish(self, data, disposition, wait):
        batch = self.work.pop(data.draw(st.integers(0, len(self.work) - 1)))
        taken = offsets(batch)
        named = data.draw(st.sets(st.sampled_from(taken)))
        wait = None if disposition in (Disposition.COMMIT, Disposition.KEEP) else wait
        ours = self.queue.keeps_lock(self.now) and self.queue.counts
        self.queue.finish(batch, disposition, self.now, finished=named, wait=wait)
        if ours:
            self._note(batch.key, taken, disposition, named)

    def _note(self, lane, taken, disposition, named):
        hand = self.in_hand[lane]
        if disposition is Disposition.COMMIT:
            self.done |= set(hand)
            hand.clear()
        elif disposition is Disposition.PUT_BACK:
            self.done |= named
            del hand[-len(taken) :]
        elif disposition is Disposition.ROLLBACK:
            hand.clear()

    @precondition(lambda self: self.work)
    @rule()
    def our_defect(self):
        batch = self.work.pop()
        self.queue.finish(batch, Disposition.ROLLBACK, self.now)
        self.queue.end_run()
        self.runs -= 1
        self.in_hand[batch.key].clear()

    @rule()
    def wake(self):
        self.queue.wake(self.now)

    @rule(data=st.data(), fails=st.booleans())
    def refill(self, data, fails):
        asked = self.queue.refill_gate()
        if asked is None:
            return
        if fails:
            self.queue.refilled(asked, (), asked)
            return
        found = [message(o) for o in sorted(self.stored) if o >= asked][
            : data.draw(st.integers(1, 4))
        ]
        missing = self.queue.refilled(asked, found, found[-1].queue_offset + 1)
        assert missing == []

    @rule()
    def save(self):
        if self.queue.unsaved(self.now) is None:
            return
        assert self.queue.lease.valid(self.now)
        self.committed = self.queue.offset
        self.queue.fence.note(self.queue.offset, self.now)

    @rule(reason=st.sampled_from([Drop.REVOKED, Drop.LOST, Drop.FENCED]), really=st.integers(0, 3))
    def drop(self, reason, really):
        if really == 0:
            self.queue.drop(reason)

    @rule(offset=st.integers(0, START + 40), really=st.integers(0, 5))
    def reset(self, offset, really):
        if really == 0 and self.queue.restart_at(offset, Drop.OFFSET_ILLEGAL):
            self.reset_to = offset

    @rule(pause=st.booleans())
    def pause(self, pause):
        self.queue.pause() if pause else self.queue.resume(self.now)

    # --- what holds ----------------------------------------------------------------------------

    def _lane(self, offset):
        return key_of(offset) if self.by_key else None

    @invariant()
    def the_offset_is_the_lowest_unfinished_one(self):
        if self.reset_to is not None:
            assert self.queue.offset == self.reset_to, "whatever comes after the reset"
            return
        open_ones = set(range(START, self.queue.next_pull)) - self.done
        assert self.queue.offset == min(open_ones, default=self.queue.next_pull)

    @invariant()
    def what_is_saved_never_passes_an_unfinished_one(self):
        if self.reset_to is None:
            assert set(range(START, self.committed)) <= self.done

    @invariant()
    def what_is_remembered_is_what_is_finished(self):
        """Offset, finished ahead and unfinished are everything; nothing is in two of them."""
        ahead = {o for start, end in self.queue.finished_ahead for o in range(start, end)}
        if self.reset_to is not None or not self.by_key:
            assert ahead == set()
            return
        assert ahead == {o for o in self.done if o >= self.queue.offset}
        unfinished = set(self.queue.messages.unfinished())
        pulled = set(range(START, self.queue.next_pull))
        assert unfinished | ahead | set(range(START, self.queue.offset)) == pulled | self.inherited

    @invariant()
    def it_is_not_pulled_beyond_what_may_be_ahead(self):
        slack = 5 + len(self.inherited)  # one pull may go beyond
        if self.by_key and self.reset_to is None:
            assert self.queue.next_pull - self.queue.offset <= SPAN + slack

    @invariant()
    def nothing_is_saved_that_is_not_ours(self):
        if self.queue.dropped in NOT_OURS:
            assert self.queue.unsaved(self.now) is None


def runs_of(offsets):
    everything = range(max(offsets, default=START) + 1)
    end = max(offsets, default=START) + 1
    return finished_runs([o for o in everything if o not in offsets], START, end) if offsets else ()


class ByKey(OwnedQueueMachine):
    by_key = True


@pytest.mark.parametrize("machine", [OwnedQueueMachine, ByKey])
def test_random_histories(machine, monkeypatch):
    monkeypatch.setattr(lanes_module, "LANE_BODIES", 2)
    monkeypatch.setattr(lanes_module, "SUSPENDED_BODIES", 1)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=120, stateful_step_count=60, deadline=None)
    )
