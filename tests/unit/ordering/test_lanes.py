"""The lanes of one queue: in order within a key, side by side otherwise, and nothing is lost."""

from __future__ import annotations

import math

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
from orderly.ordering import lowest as lowest_module
from orderly.ordering.lane import Turn
from orderly.ordering.lanes import LANE_BODIES, SUSPENDED_BODIES, WAITING_PART, Lanes
from orderly.ordering.results import Disposition
from tests.support.messages import message

NOW = 1.0
COMMIT, PUT_BACK = Disposition.COMMIT, Disposition.PUT_BACK
KEYS = 4  # in random histories


def lanes_of(keys, *, bounded=True):
    """Lanes with one message a key named, at the offsets 0, 1, ..."""
    lanes = Lanes(bounded=bounded)
    lanes.put([message(offset) for offset in range(len(keys))], list(keys))
    return lanes


def offsets(batch):
    return [taken.queue_offset for taken in batch.messages]


def take_all(lanes, limit=1):
    """Take and commit until nothing is ready; returns the offsets in the order they came."""
    order = []
    while (batch := lanes.take(limit, NOW)) is not None:
        order += offsets(batch)
        lanes.finish(batch, COMMIT)
    return order


def test_a_batch_is_of_one_key():
    assert offsets(lanes_of("aabab").take(9, NOW)) == [0, 1, 3]


def test_the_lane_that_waits_longest_is_next():
    lanes = lanes_of("aaabc")
    assert take_all(lanes) == [0, 3, 4, 1, 2]


def test_a_queue_with_one_lane_has_no_keys_and_keeps_all_bodies():
    lanes = Lanes(bounded=False)
    lanes.put([message(offset) for offset in range(3 * LANE_BODIES)], None)
    assert (lanes.count, lanes.deferred, len(lanes)) == (3 * LANE_BODIES, 0, 1)
    assert take_all(lanes) == list(range(3 * LANE_BODIES))


def test_messages_without_a_key_are_one_lane():
    lanes = lanes_of([None, "a", None])
    assert offsets(lanes.take(9, NOW)) == [0, 2]


def test_the_lowest_is_that_of_the_slowest_key_however_many_others_end():
    """What is finished ahead costs nothing: no trace of it is left."""
    lanes = Lanes(bounded=True)
    lanes.put([message(0)], ["slow"])
    slow = lanes.take(1, NOW)
    for offset in range(1, 5000):
        lanes.put([message(offset)], [offset])
        lanes.finish(lanes.take(1, NOW), COMMIT)
        assert lanes.lowest == 0
    assert (len(lanes), lanes.unfinished()) == (1, [0])
    assert len(lanes._lowest._heap) < 2000
    lanes.finish(slow, COMMIT)
    assert lanes.lowest is None


def test_a_lane_far_behind_keeps_offsets_only_and_gets_its_bodies_again():
    lanes = Lanes(bounded=True)
    count = LANE_BODIES + 5
    lanes.put([message(offset) for offset in range(count)], ["a"] * count)
    assert (lanes.count, lanes.deferred, lanes.refill_from) == (LANE_BODIES, 5, None)
    assert take_all(lanes) == list(range(LANE_BODIES))
    assert (lanes.ready, lanes.refill_from) == (False, LANE_BODIES)
    again = [message(offset) for offset in range(LANE_BODIES, LANE_BODIES + 3)]
    assert lanes.refill(LANE_BODIES, again, LANE_BODIES + 3) == []
    assert take_all(lanes) == [m.queue_offset for m in again]
    assert (lanes.refill_from, lanes.deferred) == (LANE_BODIES + 3, 2)


def test_bodies_come_to_every_lane_that_misses_them_and_can_go_on():
    lanes = Lanes(bounded=True)
    count = LANE_BODIES + 1
    lanes.put([message(n) for n in range(count)], ["a"] * count)
    lanes.put([message(n) for n in range(count, 2 * count)], ["b"] * count)
    lanes.put([message(n) for n in range(2 * count, 3 * count)], ["c"] * count)
    asleep = lanes.take(1, NOW)
    lanes.finish(asleep, PUT_BACK, wake_at=5.0)
    lanes.take(1, NOW)  # b has a body left, and goes on nevertheless
    take_all(lanes)
    everything = [message(n) for n in range(3 * count)]
    assert lanes.refill(3 * count - 1, everything, 3 * count) == []
    left = {lane.key: list(lane.later) for lane in lanes.lanes}
    assert left["a"] == list(range(SUSPENDED_BODIES, count)), "it waits"
    assert not left.get("b")
    assert not left.get("c")


def test_bodies_come_only_while_there_is_room_and_the_rest_is_asked_for_again():
    lanes, asked = deferred_lane()
    lanes.limit(8, 10**9)
    again = [message(asked + place) for place in range(3)]
    assert lanes.refill(asked, again, asked + 3) == []
    assert (lanes.count, lanes.deferred) == (2, 1), "a quarter of the room"
    assert not lanes.takes_bodies
    assert take_all(lanes) == [asked, asked + 1]
    assert (lanes.refill_from, lanes.takes_bodies) == (asked + 2, True)


def test_a_lane_goes_on_however_much_a_manual_commit_keeps_in_hand():
    lanes = Lanes(bounded=True)
    for first in range(0, 3 * LANE_BODIES, LANE_BODIES):
        batch = [message(first + place) for place in range(LANE_BODIES)]
        lanes.put(batch, ["a"] * LANE_BODIES)
        assert lanes.deferred == 0
        lanes.finish(lanes.take(LANE_BODIES, NOW), Disposition.KEEP)
    assert lanes.in_hand == 3 * LANE_BODIES


def test_a_lane_has_room_for_a_full_batch():
    size = 2 * LANE_BODIES
    lanes = Lanes(bounded=True, batch_size=size)
    lanes.put([message(offset) for offset in range(size)], ["a"] * size)
    assert len(lanes.take(size, NOW).messages) == size


def suspended(count, room, *, size=10**9):
    """That many lanes of one message that failed; the first to fail wakes first."""
    lanes = lanes_of(range(count))
    lanes.limit(room, size)
    for number in range(count):
        lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=5.0 + number)
    return lanes


def with_bodies(lanes):
    return [lane.key for lane in lanes.lanes if lane.messages.pending]


def test_lanes_that_wait_share_a_quarter_of_the_room_and_the_last_to_wake_keep_no_body():
    lanes = suspended(20, 16)
    assert (lanes.count, lanes.asleep, lanes.deferred) == (4, 4, 16)
    assert with_bodies(lanes) == [0, 1, 2, 3]
    lanes.limit(8, 10**9)
    assert with_bodies(lanes) == [0, 1], "also when the room gets smaller"
    assert lanes.unfinished() == list(range(20))


def test_they_share_a_quarter_of_the_bytes_too():
    assert with_bodies(suspended(20, 1000, size=1200)) == [0, 1, 2]


def test_one_that_waits_alone_keeps_its_body_however_small_the_room_is():
    assert with_bodies(suspended(1, 1, size=1)) == [0]


def test_one_that_wakes_earlier_takes_the_place_of_one_that_wakes_later():
    lanes = suspended(20, 16)
    lanes.put([message(20)], [20])
    lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=5.5)
    assert with_bodies(lanes) == [0, 1, 2, 20]


def test_one_without_a_body_gets_none_while_it_waits():
    lanes = suspended(20, 16)
    lanes.put([message(20)], [19])
    lanes.refill(0, [message(offset) for offset in range(21)], 21)
    assert (lanes.count, lanes.deferred) == (4, 17)


def test_one_without_a_body_has_patience_so_that_others_come_with_the_same_pull():
    lanes = suspended(20, 16)
    lanes.wake(9.0)
    lanes.wake(10.0)
    assert (lanes.refill_from, lanes.refill_at) == (4, 9.0 + 8.0 / 8), "an eighth of its wait"
    assert lanes.refill(4, [message(offset) for offset in range(4, 20)], 20) == []
    assert with_bodies(lanes) == [0, 1, 2, 3, 4, 5], "it, and whoever is awake by then"
    assert take_all(lanes) == [0, 1, 2, 3, 4, 5]
    assert (lanes.refill_from, lanes.suspended) == (None, 14)


def test_nobody_has_patience_for_long():
    lanes = lanes_of("ab")
    lanes.limit(1, 10**9)
    for _ in "ab":
        lanes.finish(lanes.take(1, 0.0), PUT_BACK, wake_at=3600.0)
    lanes.wake(3600.0)
    assert lanes.refill_at == 3605.0


def test_what_follows_what_was_let_go_is_asked_for_at_once():
    """A lane has patience for what it waited with, not for what comes after that."""
    lanes = lanes_of("ab" + "a" * LANE_BODIES)
    lanes.limit(1, 10**9)
    for _ in "ab":
        lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=81.0)
    lanes.wake(81.0)
    lanes.finish(lanes.take(1, 82.0), COMMIT)
    assert (lanes.refill_from, lanes.refill_at) == (2, 82.0)


def test_bodies_are_asked_for_in_the_order_in_which_they_were_missed():
    """Else those with low offsets, which fail again and again, would hold back the others."""
    lanes = lanes_of(range(3))
    lanes.limit(1, 10**9)
    for wake_at in (5.0, 9.0, 7.0):
        lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=wake_at)
    lanes.wake(7.0)
    lanes.wake(9.0)
    assert take_all(lanes) == [0]
    assert lanes.refill_from == 2
    lanes.refill(2, [message(2)], 3)
    assert take_all(lanes) == [2]
    assert lanes.refill_from == 1


def test_bodies_that_come_again_leave_room_for_new_messages():
    """While many lanes ask for theirs, the queue must be worked down to where it is pulled."""
    lanes = suspended(1000, 400)
    lanes.wake(2000.0)
    while lanes.takes_bodies and (asked := lanes.refill_from) is not None:
        lanes.refill(asked, [message(asked + n) for n in range(32)], asked + 32)
    assert lanes.refill_from is not None
    assert lanes.count == 100 + lanes.again == 200


def test_a_body_that_was_tried_and_let_go_comes_again_with_its_count_of_attempts():
    lanes = lanes_of("a" * 6)
    lanes.limit(4, 10**9)
    lanes.finish(lanes.take(6, NOW), PUT_BACK, wake_at=5.0)
    assert (lanes.count, lanes.deferred) == (1, 5)
    (lane,) = lanes.lanes
    assert lane.attempts == 1
    lanes.limit(100, 10**9)
    lanes.wake(5.0)
    lanes.finish(lanes.take(1, NOW), COMMIT)
    assert lanes.refill(1, [message(offset) for offset in range(1, 6)], 6) == []
    assert [m.reconsume_times for m in lanes.take(9, NOW).messages] == [1] * 5


def test_a_suspended_lane_lets_go_of_bodies_but_of_none_that_was_tried():
    lanes = lanes_of("a" * 30)
    tried = SUSPENDED_BODIES + 4
    lanes.finish(lanes.take(tried, NOW), PUT_BACK, wake_at=5.0)
    assert (lanes.count, lanes.deferred) == (tried, 30 - tried)
    lanes.wake(5.0)
    assert {m.reconsume_times for m in lanes.take(tried, NOW).messages} == {1}


def test_what_comes_for_a_suspended_lane_is_kept_as_offsets():
    lanes = lanes_of("a" * SUSPENDED_BODIES)
    lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=5.0)
    lanes.put([message(SUSPENDED_BODIES)], ["a"])
    assert (lanes.count, lanes.deferred) == (SUSPENDED_BODIES, 1)


def deferred_lane():
    """A lane with nothing left but three offsets, one of them asked for; returns both."""
    lanes = Lanes(bounded=True)
    count = LANE_BODIES + 3
    lanes.put([message(offset) for offset in range(count)], ["a"] * count)
    take_all(lanes)
    return lanes, LANE_BODIES


def test_what_is_there_behind_a_lost_body_is_not_lost_with_it():
    lanes, asked = deferred_lane()
    assert lanes.refill(asked, [message(asked + 1)], asked + 3) == [asked, asked + 2]
    assert lanes.deferred == 0
    assert take_all(lanes) == [asked + 1]
    assert len(lanes) == 0


def test_a_lost_body_is_told_also_while_others_of_the_key_are_in_hand():
    """It would be asked for again and again, and the key would stand still for ever."""
    lanes = Lanes(bounded=True)
    count = LANE_BODIES + 1
    lanes.put([message(offset) for offset in range(count)], ["a"] * count)
    lanes.finish(lanes.take(LANE_BODIES, NOW), Disposition.KEEP)
    assert lanes.refill_from == LANE_BODIES
    assert lanes.refill(LANE_BODIES, [], count) == [LANE_BODIES]
    assert lanes.refill_from is None


def test_a_refill_that_failed_or_came_too_late_changes_nothing():
    lanes, asked = deferred_lane()
    assert lanes.refill(asked, [], asked) == []
    assert lanes.refill(asked - 1, [message(asked)], asked + 1) == []
    assert lanes.unfinished() == [asked, asked + 1, asked + 2]


def test_a_batch_is_in_work_until_it_is_finished_even_if_its_key_comes_again():
    lanes = lanes_of("aa")
    batch = lanes.take(1, NOW)
    assert lanes.in_work(batch)
    lanes.finish(batch, COMMIT)
    following = lanes.take(1, NOW)
    assert (lanes.in_work(batch), lanes.in_work(following)) == (False, True)


class Incomparable:
    """A user's key that is equal to nothing, in a bad way."""

    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        raise AttributeError("no id")


def test_a_key_that_cannot_be_compared_loses_no_message():
    lanes = Lanes(bounded=True)
    with pytest.raises(AttributeError):
        lanes.put([message(0, "a"), message(1, "b")], ["a", Incomparable()])
    lanes.put([message(0, "a"), message(1, "b")], ["a", "b"])  # pulled again
    assert lanes.unfinished() == [0, 1]


def test_what_was_seen_before_is_left_out():
    lanes = lanes_of("ab")
    lanes.put([message(0), message(1), message(2)], ["a", "b", "c"])
    assert lanes.unfinished() == [0, 1, 2]


# --- keys that the program holds back, and their rate ---------------------------------------------


def test_a_paused_key_costs_offsets_and_gets_its_bodies_back_when_it_goes_on():
    lanes = Lanes(bounded=True)
    lanes.pause("a")
    lanes.put([message(offset) for offset in range(50)], ["a"] * 49 + ["b"])
    assert (lanes.count, lanes.deferred, lanes.paused, lanes.suspended) == (1, 49, 1, 0)
    assert take_all(lanes) == [49]
    assert lanes.lowest == 0, "it holds the offset back"
    assert lanes.refill_from is None
    lanes.resume("a", NOW)
    assert lanes.refill_from == 0
    lanes.refill(0, [message(offset) for offset in range(49)], 49)
    assert take_all(lanes) == list(range(49))


def test_a_key_that_is_paused_in_work_ends_that_and_takes_nothing_more():
    lanes = lanes_of("aab")
    batch = lanes.take(1, NOW)
    lanes.pause("a")
    lanes.finish(batch, COMMIT)
    assert take_all(lanes) == [2]
    lanes.resume("a", NOW)
    assert take_all(lanes) == [1]


def test_a_wait_that_a_paused_key_had_goes_on_when_it_is_resumed():
    lanes = lanes_of("ab")
    lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=NOW + 9)
    lanes.pause("a")
    lanes.wake(NOW + 3)
    lanes.resume("a", NOW + 3)
    assert (lanes.suspended, lanes.wake_at) == (1, NOW + 9)
    lanes.pause("a")
    lanes.wake(NOW + 20)
    lanes.resume("a", NOW + 20)
    batches = [lanes.take(1, NOW + 20), lanes.take(1, NOW + 20)]
    assert [(offsets(b), b.messages[0].reconsume_times) for b in batches] == [([1], 0), ([0], 1)]


def paced(keys, spacing=2.0):
    lanes = Lanes(bounded=True, spacing=spacing)
    lanes.put([message(offset) for offset in range(len(keys))], list(keys))
    return lanes


def test_a_keys_messages_begin_no_sooner_than_its_rate_lets_them():
    lanes = paced("aab")
    first, other = lanes.take(1, NOW), lanes.take(1, NOW)
    assert (offsets(first), offsets(other)) == ([0], [2])
    assert lanes.finish(first, COMMIT) == NOW + 2
    assert lanes.take(1, NOW + 1) is None
    assert (lanes.paced, lanes.suspended, lanes.next_is_paced) == (1, 0, True)
    lanes.wake(NOW + 2)
    assert offsets(lanes.take(1, NOW + 2)) == [1]


def test_each_message_of_a_batch_counts():
    lanes = paced("aaa")
    assert lanes.finish(lanes.take(3, NOW), COMMIT) == NOW + 6


def test_it_counts_from_when_the_call_began():
    lanes = paced("a")
    batch = lanes.take(1, NOW)
    batch.began = NOW + 0.5
    assert lanes.finish(batch, COMMIT) == NOW + 2.5


def test_what_goes_aside_has_no_rate_and_needs_no_permit():
    lanes = Lanes(bounded=True, spacing=2.0, aside="parked".__contains__)
    lanes.put([message(offset) for offset in range(3)], ["parked", "b", "parked"])
    assert lanes.ready_unpaid
    aside = lanes.take(1, NOW, paid=False)
    assert (offsets(aside), lanes.take(1, NOW, paid=False)) == ([0], None)
    assert lanes.finish(aside, COMMIT) is None
    assert [offsets(lanes.take(1, NOW)) for _ in range(2)] == [[1], [2]], "who waited longest"


def test_a_key_that_is_set_aside_waits_for_no_rate_but_a_release_of_it_does():
    aside = set()
    lanes = Lanes(bounded=True, spacing=2.0, aside=aside.__contains__)
    lanes.put([message(0), message(1)], ["a", "a"])
    batch = lanes.take(1, NOW)
    aside.add("a")  # the handler parked it
    assert lanes.finish(batch, COMMIT) is None
    assert offsets(lanes.take(1, NOW, paid=False)) == [1]
    assert (lanes.pace_end("a"), lanes.pace_end("b")) == (NOW + 2, -math.inf)


def test_a_paced_key_that_is_paused_and_parked_goes_aside():
    aside = set()
    lanes = Lanes(bounded=True, spacing=2.0, aside=aside.__contains__)
    lanes.put([message(offset) for offset in range(2)], ["a", "a"])
    lanes.finish(lanes.take(1, NOW), COMMIT)
    lanes.pause("a")
    lanes.want_turn("a", Turn("add", errand=True, with_bodies=True))
    errand = lanes.take_errand(NOW)
    assert lanes.take_along("a") is errand
    aside.add("a")
    lanes.finish(errand, COMMIT)
    lanes.rouse("a")
    lanes.put([message(2)], ["a"])
    assert (lanes.paced, lanes.paused, lanes.suspended, lanes.ready_unpaid) == (0, 0, 0, True)


def test_what_is_remembered_of_rates_is_bounded(monkeypatch):
    monkeypatch.setattr(lanes_module, "_PACES", 5)
    lanes = Lanes(bounded=True, spacing=0.5)
    for number in range(100):
        lanes.put([message(number)], [number])
        lanes.finish(lanes.take(1, NOW + number), COMMIT)
        lanes.wake(NOW + number + 0.9)
    assert len(lanes._pace_ends) <= 7


def test_a_task_that_called_the_handler_leaves_the_pace_to_the_lane():
    lanes = paced("a")
    lanes.want_turn("a", Turn("release"))
    task = lanes.take(1, NOW)
    lanes.give_back(task, NOW + 2)
    assert (lanes.ready, lanes.paced, lanes.wake_at) == (False, 1, NOW + 2)


def test_a_key_that_has_nothing_left_still_keeps_its_rate():
    lanes = paced("a")
    lanes.finish(lanes.take(1, NOW), COMMIT)
    lanes.put([message(1)], ["a"])
    assert not lanes.ready
    lanes.wake(NOW + 2)
    assert len(lanes) == 1
    assert lanes.ready or lanes.refill_from == 1
    lanes = paced("a")
    lanes.finish(lanes.take(1, NOW), COMMIT)
    lanes.wake(NOW + 2)
    assert len(lanes) == 0, "and is forgotten then"


def test_a_longer_wait_after_a_failure_counts_and_a_shorter_one_does_not():
    lanes = paced("a")
    assert lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=NOW + 5) == NOW + 5
    assert (lanes.paced, lanes.suspended) == (0, 1)
    lanes = paced("a")
    assert lanes.finish(lanes.take(1, NOW), PUT_BACK, wake_at=NOW + 0.5) == NOW + 2


def test_a_paced_key_can_be_paused_and_keeps_its_rate():
    lanes = paced("aa")
    lanes.finish(lanes.take(1, NOW), COMMIT)
    lanes.pause("a")
    assert (lanes.paced, lanes.paused, lanes.wake_at) == (0, 1, None)
    lanes.resume("a", NOW + 1)
    assert (lanes.paced, lanes.wake_at) == (1, NOW + 2)


def test_the_messages_of_a_batch_can_be_handed_out_alone_and_later_ones_not():
    lanes = Lanes(bounded=True)
    lanes.put([message(offset) for offset in range(8)], list("aababaaa"))
    batch = lanes.take(3, NOW)
    lanes.hand_out_alone(batch)
    lanes.finish(batch, PUT_BACK, untried=offsets(batch))
    lanes.finish(lanes.take(3, NOW), COMMIT)
    batch = lanes.take(3, NOW)
    lanes.hand_out_alone(batch)  # it dies again: it is the first, and the others stay apart
    lanes.finish(batch, PUT_BACK)
    handed_out = []
    while (batch := lanes.take(3, NOW, 4)) is not None:
        handed_out.append(offsets(batch))
        lanes.finish(batch, COMMIT)
    assert handed_out == [[0], [1], [3], [5, 6, 7]]


class LanesMachine(RuleBasedStateMachine):
    """Random histories against plain sets.

    `unfinished` maps each offset to its key, `hand` each key to its offsets in hand, `work` each
    key to its batch, `asleep` each key to when it wakes, `turns` each key to those that are wanted.
    The messages of keys in `aside` go to no handler. `alone_to` has of each key the last message
    that is to be handed out alone.
    """

    keys = st.sampled_from(["a", "b", None, 3])  # `KEYS` of them
    calls = st.sampled_from([0, 0, 1, 2, 3])
    ends = st.sampled_from([*Disposition, Disposition.KEEP, Disposition.KEEP])
    waits = st.sampled_from([None, None, None, 0, 3])
    turns = st.lists(
        st.tuples(st.integers(1, 2), st.integers(1, 3), calls, st.booleans(), ends, waits),
        min_size=8,
        max_size=16,
    )
    bounded = True

    def __init__(self):
        super().__init__()
        self.aside = set()
        self.lanes = Lanes(bounded=self.bounded, aside=self.aside.__contains__)
        self.now = 0.0
        self.end = 0
        self.unfinished, self.hand, self.work, self.asleep = {}, {}, {}, {}
        self.stored, self.attempts, self.turns = set(), {}, {}
        self.rolled_back = set()
        self.paused = set()
        self.alone_to = {}

    # --- what happens --------------------------------------------------------------------------

    @initialize(
        data=st.data(),
        keys=st.lists(st.tuples(keys, st.integers(0, 2)), min_size=6, max_size=12),
        turns=turns,
    )
    def begin(self, data, keys, turns):
        """With a run: many histories draw hardly any rule that hands something out."""
        self.run(data, keys, turns)

    @rule(keys=st.lists(st.tuples(keys, st.integers(0, 2)), max_size=6))
    def put(self, keys):
        came, of = [], []
        for key, gap in keys:
            offset = self.end + gap
            self.end = offset + 1
            self.unfinished[offset] = self.lane(key)
            self.attempts[offset] = 0
            self.stored.add(offset)
            came.append(offset)
            of.append(key)
        self.lanes.put([message(offset) for offset in came], of if self.bounded else None)

    @rule()
    def the_last_pull_comes_again(self):
        again = sorted(self.stored)[-3:]
        self.lanes.put([message(o) for o in again], ["a"] * len(again) if self.bounded else None)

    @rule(size=st.integers(1, 3), at_once=st.integers(1, 4), paid=st.booleans())
    def take(self, size, at_once, paid):
        self._take(size, at_once, paid)

    @precondition(lambda self: self.work)
    @rule(data=st.data(), disposition=st.sampled_from(Disposition), wait=waits)
    def finish(self, data, disposition, wait):
        self._finish(data.draw(st.sampled_from(list(self.work.values()))), data, disposition, wait)

    @rule(
        data=st.data(), keys=st.lists(st.tuples(keys, st.integers(0, 2)), max_size=6), turns=turns
    )
    def run(self, data, keys, turns):
        """Some turns of a run: take, have calls that go well, end with what the last came to."""
        self.put(keys)
        for size, at_once, calls, looked_at, disposition, wait in turns:
            batch = self._take(size, at_once)
            if batch is None:
                return
            batch.done = min(calls, len(batch.messages))
            if looked_at:
                self.somebody_takes_the_queues_lock()
            if batch.done < len(batch.messages):
                self._narrow(batch, data)
            self._finish(batch, data, disposition, wait)

    def _take(self, size, at_once, paid=True):
        """`at_once`: for how many calls."""
        unpaid = self.lanes.ready_unpaid
        batch = self.lanes.take(size, self.now, at_once, paid=paid)
        if batch is None:
            assert not unpaid
            assert not (paid and self.lanes.ready)
            return None
        assert batch.key not in self.work, "one batch of a key at a time"
        if batch.lane_task is not None:
            assert batch.key not in self.paused, "it calls the handler"
            return self._begin(batch, errand=False)
        assert batch.key not in self.asleep
        assert batch.key in self.aside or (paid and batch.key not in self.paused)
        assert (batch.began is None) == (batch.key in self.aside)
        assert not any(turn.errand for turn in self.turns.get(batch.key, ())[:1]), "it goes first"
        self.work[batch.key] = batch
        taken = offsets(batch)
        assert taken
        most = size if self.hand.get(batch.key) else size * at_once
        if taken[0] <= self.alone_to.get(batch.key, -1):
            most = 1
        assert len(taken) <= most, "while something is kept, what one call gets"
        assert taken == self.waiting(batch.key)[: len(taken)], "in order, and none left out"
        for got in batch.messages:
            if batch.key not in self.rolled_back:
                assert got.reconsume_times == self.attempts[got.queue_offset]
        self.hand.setdefault(batch.key, []).extend(taken)
        return batch

    def _begin(self, batch, *, errand):
        turn = self.turns[batch.key].pop(0)
        assert (turn.lane_task, turn.errand) == (batch.lane_task, errand), "in their order"
        self.work[batch.key] = batch
        return batch

    @rule()
    def take_errand(self):
        due = self.lanes.errand_due
        batch = self.lanes.take_errand(self.now)
        assert (batch is not None) == due
        if batch is not None:
            assert batch.key not in self.work
            self._begin(batch, errand=True)

    def errands(self):
        return [batch for batch in self.work.values() if batch.errand and not batch.messages]

    @precondition(lambda self: self.errands())
    @rule(data=st.data(), parks=st.booleans())
    def an_errand_takes_the_messages_along(self, data, parks):
        """It parks them, or puts them back; in the turn of its lane only a key goes aside."""
        batch = data.draw(st.sampled_from(self.errands()))
        key = batch.key
        had = [m for m in self.waiting(key) if m in self.bodies(key)]
        assert self.lanes.take_along(key) is batch
        assert offsets(batch) == had
        del self.work[key]
        self.hand.setdefault(key, []).extend(had)
        disposition = COMMIT if parks else PUT_BACK
        if parks and self.bounded:
            self.aside.add(key)
        self.lanes.finish(batch, disposition, untried=had)
        self._note(key, had, disposition, set(), set(had))
        if parks and self.bounded:
            self.lanes.rouse(key)
            self.asleep.pop(key, None)

    def bodies(self, key):
        lane = self.lanes.lane_of(key)
        return set() if lane is None else set(lane.messages.offsets())

    def _finish(self, batch, data, disposition, wait):
        if batch.done == len(batch.messages) > 0:
            disposition = COMMIT  # the last call of the burst went well, too
        elif batch.done and data.draw(st.booleans()):
            self._catch_up(batch)  # its run broke down in the middle of it
            disposition = Disposition.ROLLBACK
        elif batch.done:
            self._narrow(batch, data)
        key = batch.key
        del self.work[key]
        if batch.lane_task is not None:
            if data.draw(st.booleans()):
                self.aside.discard(key)
            self.lanes.give_back(batch)
            return
        taken = offsets(batch)
        named = st.sets(st.sampled_from(taken)) if taken else st.just(set())
        done, untried = data.draw(named), data.draw(named)
        if taken and data.draw(st.booleans()):
            self.lanes.hand_out_alone(batch)
            self.alone_to[key] = max(self.alone_to.get(key, -1), taken[-1])
        wake_at = None if wait is None or disposition is Disposition.KEEP else self.now + wait
        self.lanes.finish(batch, disposition, finished=done, untried=untried, wake_at=wake_at)
        self._note(key, taken, disposition, done, untried)
        if wake_at is not None:
            self.asleep[key] = wake_at

    def _note(self, key, taken, disposition, done, untried):
        hand = self.hand[key]
        if disposition is Disposition.COMMIT:
            self._gone(hand)
            hand.clear()
        elif disposition is Disposition.PUT_BACK:
            self._gone(done)
            del hand[len(hand) - len(taken) :]
            for offset in set(taken) - done - untried:
                self.attempts[offset] += 1
        elif disposition is Disposition.ROLLBACK:
            self.rolled_back.add(key)
            self._gone(done.intersection(hand))  # some of them a burst may have finished before
            hand.clear()

    # --- several calls for one taking ----------------------------------------------------------

    @precondition(lambda self: self.bursts())
    @rule(data=st.data())
    def the_next_call_goes_well(self, data):
        data.draw(st.sampled_from(self.bursts())).done += 1

    @rule()
    def somebody_takes_the_queues_lock(self):
        for batch in self.work.values():
            self._catch_up(batch)

    @precondition(lambda self: self.bursts())
    @rule(data=st.data())
    def a_burst_ends(self, data):
        """It may be the first call that ends it, with what an earlier batch kept in hand."""
        self._narrow(data.draw(st.sampled_from(self.bursts())), data)

    def bursts(self):
        """The batches of which something is still to be handed out."""
        return [b for b in self.work.values() if b.done < len(b.messages)]

    def _narrow(self, batch, data):
        left = offsets(batch)[batch.done :]
        kept = data.draw(st.integers(0, len(left)))
        self._is_done(batch)
        hand = self.hand[batch.key]
        del hand[len(hand) - (len(left) - kept) :]
        self.lanes.narrow(batch, kept)
        assert (offsets(batch), batch.done) == (left[:kept], 0)

    def _catch_up(self, batch):
        self._is_done(batch)
        self.lanes.catch_up(batch)

    def _is_done(self, batch):
        """A plain success commits all that its lane has in hand up to itself; no other does."""
        if batch.done:
            hand = self.hand[batch.key]
            committed = len(hand) - (len(batch.messages) - batch.done)
            self._gone(hand[:committed])
            del hand[:committed]

    @rule(key=keys, errand=st.booleans(), with_bodies=st.booleans())
    def want_turn(self, key, errand, with_bodies):
        turn = Turn(object(), errand, errand and with_bodies)
        self.lanes.want_turn(self.lane(key), turn)
        self.turns.setdefault(self.lane(key), []).append(turn)

    @precondition(lambda self: any(self.turns.values()))
    @rule(data=st.data())
    def recall(self, data):
        key, turns = data.draw(st.sampled_from([(k, t) for k, t in self.turns.items() if t]))
        turn = turns.pop(data.draw(st.integers(0, len(turns) - 1)))
        assert self.lanes.recall(key, turn.lane_task)
        assert not self.lanes.recall(key, turn.lane_task)

    @rule(count=st.integers(1, 40))
    def limit_the_room(self, count):
        self.lanes.limit(count, 10**9)

    @rule(seconds=st.floats(0, 4))
    def wake(self, seconds):
        self.now += seconds
        self.lanes.wake(self.now)
        self.asleep = {key: at for key, at in self.asleep.items() if at > self.now}

    @precondition(lambda self: self.bounded)
    @rule(key=keys)
    def pause(self, key):
        self.paused.add(key)
        self.lanes.pause(key)

    @precondition(lambda self: self.paused)
    @rule(data=st.data())
    def resume(self, data):
        key = data.draw(st.sampled_from(sorted(self.paused, key=repr)))
        lane = self.lanes.lane_of(key)
        halted = lane is not None and lane.halted
        self.paused.discard(key)
        self.lanes.resume(key, self.now)
        if halted and self.asleep.get(key, self.now + 1) <= self.now:
            del self.asleep[key]

    @precondition(lambda self: self.lanes.refill_from is not None)
    @rule(data=st.data(), count=st.integers(0, 8), fails=st.booleans())
    def refill(self, data, count, fails):
        asked = self.lanes.refill_from
        if fails:
            assert self.lanes.refill(asked, (), asked) == []
            return
        end = asked + count
        shown = {offset for offset in self.stored if asked <= offset < end}
        lost = data.draw(st.sets(st.sampled_from(sorted(shown)), max_size=1)) if shown else set()
        self.stored -= lost
        replies = [message(offset) for offset in sorted(shown - lost)]
        missing = self.lanes.refill(asked, replies, end)
        key = self.unfinished[asked]
        expected = {o for o in self.waiting(key) if asked <= o < end and o not in self.stored}
        assert set(missing) <= expected, "told are those that are gone, and no others"
        assert not self.lanes.takes_bodies or set(missing) == expected, "else at the next asking"
        assert not count or not self.lanes.takes_bodies or self.lanes.refill_from != asked
        self._gone(missing)

    # --- what holds ----------------------------------------------------------------------------

    def lane(self, key):
        return key if self.bounded else None

    def waiting(self, key):
        of_key = sorted(offset for offset, of in self.unfinished.items() if of == key)
        return [offset for offset in of_key if offset not in self.hand.get(key, ())]

    def _gone(self, offsets):
        for offset in offsets:
            del self.unfinished[offset]

    @invariant()
    def what_is_told_is_what_the_lanes_hold(self):
        lanes, in_hand = self.lanes, sum(map(len, self.hand.values()))
        assert lanes.unfinished() == sorted(self.unfinished)
        assert lanes.lowest == min(self.unfinished, default=None)
        assert lanes.count + lanes.deferred == len(self.unfinished)
        assert lanes.in_hand == in_hand
        assert lanes.pending == lanes.count - in_hand
        assert lanes.size == lanes.count * 100
        waiting = [lane for lane in lanes.lanes if lane.wake_at is not None]
        assert lanes.asleep == sum(lane.messages.pending for lane in waiting)
        assert lanes.asleep_size == lanes.asleep * 100
        fetched = sum(lane.messages.pending for lane in waiting if lane.wants_bodies)
        most = max(1, lanes._max_count / WAITING_PART)
        assert not self.bounded or lanes.asleep - fetched <= most
        assert lanes.again == sum(lane.again for lane in lanes.lanes)
        at_rest = [lane for lane in lanes.lanes if lane.since is None]
        assert all(lane.again <= lane.messages.pending for lane in at_rest)
        assert 0 <= lanes.moving <= 1
        assert lanes.running == len(self.work)
        halted = {lane.key for lane in lanes.lanes if lane.halted}
        assert halted <= self.paused
        asleep = {key: at for key, at in self.asleep.items() if key not in halted}
        assert lanes.suspended == len(asleep)
        assert lanes.wake_at == min(asleep.values(), default=None)
        paused = self.paused - self.aside
        held = [lane for lane in lanes.lanes if lane.key in paused and lane.unfinished]
        assert lanes.paused == len(held)
        assert lanes.paused_messages == sum(lane.unfinished for lane in held)
        assert lanes.paused_deferred == sum(len(lane.later) for lane in held)
        assert lanes.head is None or lanes.head.queue_offset == lanes.lowest
        assert len(lanes._lowest._heap) <= 2 * KEYS + lowest_module._LEFT_IN

    @invariant()
    def a_key_that_can_go_on_will(self):
        """Either it is ready, or its bodies are asked for."""
        for key in {*self.unfinished.values(), *(k for k, e in self.turns.items() if e)}:
            if key in self.work:
                continue
            turn = next(iter(self.turns.get(key, ())), None)
            if turn is not None and turn.errand:
                misses = turn.with_bodies and self.waiting(key) and not self.pending(key)
                assert self.lanes.refill_from is not None if misses else self.lanes.errand_due
                assert not misses or self.lanes.refills
            elif turn is not None and key not in self.paused:
                assert self.lanes.ready_unpaid
            elif key in self.asleep or (key in self.paused and key not in self.aside):
                continue
            elif self.waiting(key):
                assert self.lanes.ready or self.lanes.refill_from is not None
        if self.lanes.refill_from is not None and not self.lanes.refills:
            busy = self.work or any(self.hand.values()) or self.lanes.errand_due
            assert self.lanes.ready or busy, "room will come"

    def pending(self, key):
        lane = self.lanes.lane_of(key)
        return 0 if lane is None else lane.messages.pending

    def teardown(self):
        """Whatever happened, everything still there is handed out in the end, each key in order."""
        for batch in list(self.work.values()):
            self.lanes.give_back(batch) if batch.lane_task else self.lanes.finish(batch, COMMIT)
            self._gone(self.hand.get(batch.key, []) if not batch.lane_task else [])
            if not batch.lane_task:
                self.hand[batch.key] = []
        for key in self.paused:
            self.lanes.resume(key, self.now)
        self.lanes.wake(self.now + 100)
        self.lanes.limit(10**6, 10**9)
        left = {key: self.waiting(key) for key in set(self.unfinished.values())}
        came = {}
        for _ in range(1000):
            batch = self.lanes.take_errand(self.now) or self.lanes.take(2, self.now)
            if batch is not None:
                came.setdefault(batch.key, []).extend(offsets(batch))
                self.lanes.give_back(batch) if batch.lane_task else self.lanes.finish(batch, COMMIT)
            elif (asked := self.lanes.refill_from) is not None:
                shown = [message(o) for o in sorted(self.stored) if o >= asked][:4]
                end = shown[-1].queue_offset + 1 if shown else self.end
                for offset in self.lanes.refill(asked, shown, end):
                    left[self.unfinished[offset]].remove(offset)
            else:
                break
        assert {k: v for k, v in came.items() if v} == {k: v for k, v in left.items() if v}


class OneLaneMachine(LanesMachine):
    """The same with all messages in one lane."""

    bounded = False


@pytest.mark.parametrize("machine", [LanesMachine, OneLaneMachine])
def test_random_histories(machine, monkeypatch):
    monkeypatch.setattr(lanes_module, "LANE_BODIES", 3)
    monkeypatch.setattr(lanes_module, "SUSPENDED_BODIES", 2)
    monkeypatch.setattr(lowest_module, "_LEFT_IN", 2)
    run_state_machine_as_test(
        machine, settings=settings(max_examples=80, stateful_step_count=50, deadline=None)
    )
