"""Random histories of one held queue, by queue and by key: pulls, results, drops, resets, time.

The model knows of each offset whether its handling ended while the queue was ours. Each step has
the queue's lock, and so counts what is done of bursts by then.
"""

from functools import wraps

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

from orderly.consumer.session import QueueLock
from orderly.ordering import lanes as lanes_module
from orderly.ordering.offset_runs import finished_runs
from orderly.ordering.owned_queue import NOT_OURS, Drop, Lease, OwnedQueue
from orderly.ordering.pull_window import PullGate
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

TRUST = 30.0
START = 10
RUNS, SPAN, CACHED = 2, 30, 8


def key_of(offset):
    return "abc"[offset % 3]


def offsets(batch):
    return [taken.queue_offset for taken in batch.messages]


def locked(step):
    """With the queue's lock, as the shell has it around each step: what is done counts by then."""

    @wraps(step)
    def with_lock(self, *given, **drawn):
        with self.lock:
            self.held_for = max(0, self.held_for - 1)
            if self.queue.counts:
                for batch in self.work:
                    self._is_done(batch)
            return step(self, *given, **drawn)

    return with_lock


class OwnedQueueMachine(RuleBasedStateMachine):
    by_key = False
    calls = st.sampled_from([0, 0, 1, 2, 3])
    ends = st.sampled_from([*Disposition, Disposition.KEEP, Disposition.KEEP])
    waits = st.sampled_from([None, None, None, 5.0])
    passing = st.sampled_from([True, True, True, False])
    turns = st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 3), calls, ends, waits),
        min_size=8,
        max_size=16,
    )

    @initialize(
        ahead=st.sets(st.integers(START + 1, START + 15)),
        kinds=st.lists(passing, min_size=6, max_size=12),
        held=st.integers(0, 60),
        data=st.data(),
        turns=turns,
    )
    def taken(self, ahead, kinds, held, data, turns):
        """It begins with a run: many histories draw hardly any rule that hands something out.

        `held`: steps before it may be dropped or reset; nothing is handed out after that.
        """
        self.now = 0.0
        self.held_for = held
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
        self.lock = QueueLock(self.queue, self.work)
        self.in_hand = {}  # lane -> offsets in hand
        self.delivered = {}
        self.runs = 0
        self.committed = START
        self.reset_to = None
        self.run(data, kinds, turns)

    # --- what happens --------------------------------------------------------------------------

    @rule(seconds=st.floats(0, 12), renewed=st.booleans())
    @locked
    def time_passes(self, seconds, renewed):
        self.now += seconds
        if (renewed or self.held_for) and self.queue.keeps_lock(self.now):
            self.queue.lease.renew(self.now)

    @rule(kinds=st.lists(passing, max_size=5))
    @locked
    def pull(self, kinds):
        self._pull(kinds)

    def _pull(self, kinds):
        """`kinds`: whether each of the next offsets passes the filter."""
        before = self.queue.next_pull
        if self.queue.pull_gate(self.now) is not PullGate.OPEN:
            return
        end = before + len(kinds)
        found = [before + place for place, passes in enumerate(kinds) if passes]
        self.stored |= set(found)
        self.done |= set(range(before, end)) - set(found)
        keys = [key_of(offset) for offset in found] if self.by_key else None
        self.queue.pulled([message(offset) for offset in found], end, end, keys)

    @rule()
    @locked
    def a_pull_fails(self):
        if self.queue.pull_gate(self.now) is PullGate.OPEN:
            self.queue.pull_failed()

    @rule()
    @locked
    def a_run_is_asked_for(self):
        self._ask_for_a_run()

    def _ask_for_a_run(self):
        if self.queue.request_run():
            self.runs += 1
        assert self.runs <= (RUNS if self.by_key else 1)

    @precondition(lambda self: self.runs > len(self.work))
    @rule(size=st.integers(1, 3), at_once=st.integers(1, 4))
    @locked
    def take(self, size, at_once):
        self._take(size, at_once)

    @precondition(lambda self: self.work)
    @rule(data=st.data(), disposition=st.sampled_from(Disposition), wait=waits)
    @locked
    def finish(self, data, disposition, wait):
        self._finish(data.draw(st.sampled_from(self.work)), data, disposition, wait)

    @rule(data=st.data(), kinds=st.lists(passing, max_size=5), turns=turns)
    def run(self, data, kinds, turns):
        """Some turns of a run: take, have calls that go well, end with what the last came to."""
        self.pull(kinds)
        self.a_run_is_asked_for()
        self.queue.begin_run()
        for size, at_once, calls, disposition, wait in turns:
            if self.runs == len(self.work):
                return
            batch = self.taken_now(size, at_once)
            if batch is not None:
                batch.done = min(calls, len(batch.messages))
                self.finished_now(batch, data, disposition, wait)

    @locked
    def taken_now(self, size, at_once):
        return self._take(size, at_once)

    @locked
    def finished_now(self, batch, data, disposition, wait):
        if batch.done < len(batch.messages):
            self._narrow(batch, data)
        self._finish(batch, data, disposition, wait)

    def _take(self, size, at_once):
        """`at_once`: for how many calls."""
        batch = self.queue.take(size, self.now, at_once)
        if batch is None:
            self.runs -= 1
            return None
        assert self.queue.lease.valid(self.now)
        assert self.queue.dropped is None
        lane = batch.key
        assert lane not in {other.key for other in self.work}
        taken = offsets(batch)
        assert not set(taken) & self.done, "what is finished is not handed out, nor what was"
        most = size if self.in_hand.get(lane) else size * at_once
        assert len(taken) <= most, "while something is kept, what one call gets"
        expected = [
            o
            for o in sorted(self.stored - self.done)
            if self._lane(o) == lane and o not in self.in_hand.get(lane, ())
        ]
        assert taken == expected[: len(taken)], "each lane in order, and nothing left out"
        self.in_hand.setdefault(lane, []).extend(taken)
        self.work.append(batch)
        return batch

    def _finish(self, batch, data, disposition, wait):
        if batch.done == len(batch.messages) > 0:
            disposition = Disposition.COMMIT  # the last call of the burst went well, too
        elif batch.done:
            self._narrow(batch, data)
        self.work.remove(batch)
        taken = offsets(batch)
        named = data.draw(st.sets(st.sampled_from(taken))) if taken else set()
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
            del hand[len(hand) - len(taken) :]
        elif disposition is Disposition.ROLLBACK:
            self.done |= named
            hand.clear()

    @precondition(lambda self: self.bursts())
    @rule(data=st.data())
    def the_next_call_goes_well(self, data):
        """Noted without the lock."""
        batch = data.draw(st.sampled_from(self.bursts()))
        batch.done += 1

    @rule()
    @locked
    def somebody_looks(self):
        pass

    @precondition(lambda self: self.bursts())
    @rule(data=st.data())
    @locked
    def a_burst_ends(self, data):
        """It may be the first call that ends it, with what an earlier batch kept in hand."""
        self._narrow(data.draw(st.sampled_from(self.bursts())), data)

    def bursts(self):
        """The batches of which something is still to be handed out."""
        return [batch for batch in self.work if batch.done < len(batch.messages)]

    def _narrow(self, batch, data):
        left = offsets(batch)[batch.done :]
        kept = data.draw(st.integers(0, len(left)))
        if self.queue.counts:
            hand = self.in_hand[batch.key]
            del hand[len(hand) - (len(left) - kept) :]
        self.queue.narrow(batch, kept)
        assert (offsets(batch), batch.done) == (left[:kept], 0)

    def _is_done(self, batch):
        """A plain success commits all that its lane has in hand up to itself; no other does."""
        if batch.done:
            hand = self.in_hand[batch.key]
            committed = len(hand) - (len(batch.messages) - batch.done)
            self.done |= set(hand[:committed])
            del hand[:committed]

    @precondition(lambda self: self.work)
    @rule()
    @locked
    def our_defect(self):
        batch = self.work.pop()
        self.queue.finish(batch, Disposition.ROLLBACK, self.now)
        self.queue.end_run()
        self.runs -= 1
        self.in_hand[batch.key].clear()

    @rule()
    @locked
    def wake(self):
        self.queue.wake(self.now)

    @rule(data=st.data(), fails=st.booleans())
    @locked
    def refill(self, data, fails):
        asked = self.queue.refill_gate(self.now)
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
    @locked
    def save(self):
        if self.queue.unsaved(self.now) is None:
            return
        assert self.queue.lease.valid(self.now)
        self.committed = self.queue.offset
        self.queue.fence.note(self.queue.offset, self.now)

    @precondition(lambda self: not self.held_for)
    @rule(reason=st.sampled_from([Drop.REVOKED, Drop.LOST, Drop.FENCED]))
    @locked
    def drop(self, reason):
        self.queue.drop(reason)

    @precondition(lambda self: not self.held_for)
    @rule(offset=st.integers(0, START + 40))
    @locked
    def reset(self, offset):
        if self.queue.restart_at(offset, Drop.OFFSET_ILLEGAL):
            self.reset_to = offset

    @rule(pause=st.booleans())
    @locked
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
