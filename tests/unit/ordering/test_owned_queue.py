"""One held queue: its lease, its window, and every rule that keeps the order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.config import ConsumerConfig
from orderly.ordering import pull_window as window_module
from orderly.ordering.fence import Fence, Landmark
from orderly.ordering.lane import Turn
from orderly.ordering.lanes import Lanes
from orderly.ordering.owned_queue import NOT_OURS, PULL_IDLE, Drop, Lease, OwnedQueue
from orderly.ordering.pull_window import Limit, PullGate, Window, queue_limits
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

# --- lease ----------------------------------------------------------------------------------------
# A lease is trusted for its time, counted from the request, and never comes back.


moments = st.floats(0, 1e6)


@given(moments, st.floats(0, 100))
def test_it_is_trusted_for_thirty_seconds_from_the_request(asked_at, age):
    lease = Lease(asked_at, trust=30)
    moment = asked_at + age
    assert lease.valid(moment) == (moment - asked_at < 30)


@given(st.lists(moments, min_size=1))
def test_a_late_answer_to_an_older_request_never_shortens_it(renewals):
    lease = Lease(renewals[0], trust=30)
    for asked_at in renewals:
        lease.renew(asked_at)
    assert lease.renewed_at == max(renewals)


def test_a_lost_lease_stays_lost_even_when_a_renewal_arrives_later():
    lease = Lease(0, trust=30)
    lease.lose()
    lease.renew(10)
    assert not lease.valid(11)


def test_a_lease_that_ran_out_is_not_brought_back_by_a_renewal():
    lease = Lease(0.0, 30.0)
    lease.renew(30.0)
    assert not lease.valid(30.0)
    lease.renew(31.0)
    assert not lease.valid(31.0)


# --- flow -----------------------------------------------------------------------------------------
# What one queue may cache, by the limits of a queue and of its topic.


@pytest.mark.parametrize(
    ("settings", "queues", "limits"),
    [
        ({}, 7, (100, 1000)),
        ({"pull_threshold_topic": 50}, 4, (12, 1000)),
        ({"pull_threshold_topic_bytes": 900}, 4, (100, 225)),
        ({"pull_threshold_topic": 3, "pull_threshold_topic_bytes": 3}, 4, (1, 1)),
        ({"pull_threshold_topic": 50, "pull_threshold_topic_bytes": 900}, 0, (50, 900)),
    ],
)
def test_a_limit_of_the_topic_is_split_over_its_queues_and_replaces_that_of_a_queue(
    settings, queues, limits
):
    config = ConsumerConfig(pull_threshold=100, pull_threshold_bytes=1000, **settings)
    assert queue_limits(config, queues) == limits


# --- window ---------------------------------------------------------------------------------------
# When a queue may be pulled: what is cached, and how far it is consumed ahead.


SPAN = 50


def window_of(cached, *, max_span=SPAN, taken=0):
    lanes = Lanes(bounded=False)
    lanes.limit(4, 10_000)
    lanes.put([message(offset) for offset in range(cached)], ["a"] * cached)
    if taken:
        lanes.take(taken, 1.0)
    return Window(lanes, max_span)


@pytest.mark.parametrize(
    ("cached", "span", "full"), [(4, SPAN, False), (5, SPAN, True), (4, SPAN + 1, True)]
)
def test_it_is_full_beyond_either_limit_and_remembers_it(cached, span, full):
    window = window_of(cached)
    assert window.full(span) is full
    assert window.throttled is full
    assert window.limit(span) is (Limit.SPAN if span > SPAN else None)


def held_back(paused, others, monkeypatch):
    """A window with so many messages of keys that the program paused, and so many of others."""
    for name in ("MAX_KEYS", "MAX_DEFERRED", "MAX_PAUSED"):
        monkeypatch.setattr(window_module, name, 4)
    lanes = Lanes(bounded=True)
    for key in range(paused):
        lanes.pause(key)
    keys = range(paused + others)
    lanes.put([message(offset) for offset in keys], list(keys))
    return lanes, Window(lanes, SPAN)


def test_keys_that_the_program_paused_take_nobody_elses_room(monkeypatch):
    lanes, window = held_back(4, 4, monkeypatch)
    assert (lanes.paused, lanes.paused_messages, lanes.deferred) == (4, 4, 4)
    assert not window.full(1)
    lanes.put([message(8)], [0])
    assert (window.full(1), window.limit(1)) == (True, Limit.PAUSED), "they have their own"
    lanes.resume(0, 1.0)
    assert (lanes.paused, lanes.paused_messages) == (3, 3)
    assert window.limit(1) is Limit.KEYS, "it is one of the others now"


def test_a_key_that_is_paused_later_leaves_the_others_their_room(monkeypatch):
    lanes, window = held_back(0, 5, monkeypatch)
    assert window.limit(1) is Limit.KEYS
    lanes.pause(0)
    assert window.limit(1) is None


def test_by_queue_nothing_is_finished_ahead_so_no_span_counts():
    assert not window_of(4, max_span=None).full(10**9)


def test_messages_of_which_only_offsets_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_DEFERRED", 7)
    window = window_of(1)
    window._messages.deferred = 7
    assert not window.full(1)
    window._messages.deferred = 8
    assert (window.full(1), window.limit(1)) == (True, Limit.OFFSETS)


def test_keys_with_something_unfinished_are_bounded(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_KEYS", 4)
    lanes = Lanes(bounded=True)
    window = Window(lanes, SPAN)
    for offset in range(5):
        assert not window.full(1)
        lanes.put([message(offset)], [offset])
    assert (window.full(1), window.limit(1)) == (True, Limit.KEYS)
    for _ in range(3):
        lanes.finish(lanes.take(1, 1.0), Disposition.COMMIT)
    assert window.reopens(1)


def test_long_keys_that_wait_without_bodies_are_bounded_by_the_bytes_of_the_queue():
    lanes = Lanes(bounded=True)
    window = Window(lanes, SPAN)
    lanes.limit(4, 100_000)
    for offset in range(3):
        assert window.limit(1) is None
        lanes.put([message(offset)], [str(offset) * 40_000])
        batch = lanes.take(1, 1.0)
        lanes.finish(batch, Disposition.PUT_BACK, wake_at=10.0 + offset)
    assert not lanes.crowded(), "bodies that are pulled again have room"
    assert (window.full(1), window.limit(1)) == (True, Limit.KEY_BYTES)
    lanes.wake(100.0)
    for _ in range(3):
        if (at := lanes.refill_from) is not None:
            lanes.refill(at, [message(at)], at + 1)
        lanes.finish(lanes.take(1, 100.0), Disposition.COMMIT)
    assert (len(lanes), lanes.long_keys, window.limit(1)) == (0, 0, None)


def test_of_short_keys_only_the_number_counts():
    lanes = Lanes(bounded=True)
    lanes.put([message(offset) for offset in range(300)], [f"key-{n}" for n in range(300)])
    assert lanes.long_keys == 0


@pytest.mark.parametrize(
    ("cached", "taken", "span", "reopens"),
    [
        (2, 0, SPAN // 2, True),  # all of it moves: at half
        (3, 0, SPAN // 2, False),
        (2, 0, SPAN // 2 + 1, False),
        (4, 4, SPAN, True),  # nothing of it moves: at the limit
        (5, 5, SPAN, False),
        (2, 1, 33, True),  # half of it: at two thirds
        (2, 1, 34, False),
    ],
)
def test_it_reopens_the_earlier_the_less_of_it_can_move(cached, taken, span, reopens):
    window = window_of(cached, taken=taken)
    assert not window.reopens(span), "it was not full"
    window.throttled = True
    assert window.reopens(span) is reopens


@pytest.mark.parametrize(("cached", "taken"), [(5, 5), (5, 4), (4, 4)])
def test_it_is_not_stuck_while_something_runs_or_comes(cached, taken):
    assert not window_of(cached, taken=taken).stuck


# --- owned queue ----------------------------------------------------------------------------------
# The rules that keep the order of one held queue, one by one.


TRUST = 30.0
NOW = 1.0


def owned(start=0, *, asked_at=0.0, max_messages=4, max_bytes=10_000, **settings):
    limits = {"max_messages": max_messages, "max_bytes": max_bytes}
    return OwnedQueue(QUEUE, start, Lease(asked_at, TRUST), **limits, **settings)


def loaded(count=3, **kwargs):
    queue = owned(**kwargs)
    queue.pull_gate(0)
    queue.pulled([message(i) for i in range(count)], count)
    return queue


def held(*offsets):
    queue = owned(start=offsets[0])
    queue.pull_gate(0)
    queue.pulled([message(offset) for offset in offsets], offsets[-1] + 1)
    return queue


def offsets(batch):
    return [m.queue_offset for m in batch.messages]


def test_only_one_run_at_a_time_and_requests_coalesce():
    queue = owned()
    queue.pull_gate(0)
    assert queue.pulled([message(0)], 1)
    assert queue.request_run()
    assert not queue.request_run()
    queue.begin_run()
    assert not queue.request_run()
    batch = queue.take(1, 1)
    queue.pulled([message(1)], 2)
    assert not queue.request_run()
    queue.finish(batch, Disposition.COMMIT, 1)
    assert not queue.request_run(), "the run goes on with what came meanwhile"
    queue.finish(queue.take(1, 1), Disposition.COMMIT, 1)
    assert queue.take(1, 1) is None
    assert not queue.request_run(), "nothing is there to run for"
    queue.pulled([message(2)], 3)
    assert queue.request_run()


def test_no_message_is_handed_out_once_the_lease_ran_out():
    queue = loaded()
    assert queue.take(1, TRUST) is None
    assert queue.dropped is Drop.LOST
    assert queue.idle


@pytest.mark.parametrize("later", Drop)
@pytest.mark.parametrize("first", Drop)
def test_only_a_reason_to_save_nothing_takes_the_place_of_another_one(first, later):
    queue = owned()
    assert queue.drop(first)
    outranks = later in NOT_OURS and first not in NOT_OURS
    assert queue.drop(later) == outranks
    assert queue.dropped is (later if outranks else first)


def test_a_success_after_a_revocation_counts_because_the_lock_was_kept():
    queue = loaded()
    batch = queue.take(1, 1)
    queue.drop(Drop.REVOKED)
    queue.finish(batch, Disposition.COMMIT, 2)
    assert queue.unsaved(2) == 1
    assert queue.keeps_lock(2)


def test_a_success_after_the_lock_was_lost_does_not_move_the_offset():
    queue = loaded()
    batch = queue.take(1, 1)
    queue.drop(Drop.REVOKED)
    queue.drop(Drop.LOST)
    queue.finish(batch, Disposition.COMMIT, 2)
    assert queue.offset == 0
    assert queue.unsaved(2) is None
    assert not queue.keeps_lock(2)


def test_a_handler_that_outlasts_the_lease_commits_nothing():
    queue = loaded()
    batch = queue.take(1, 1)
    queue.finish(batch, Disposition.COMMIT, TRUST + 1)
    assert queue.dropped is Drop.LOST
    assert queue.unsaved(TRUST + 1) is None


def test_results_in_hand_do_not_count_after_the_broker_named_another_offset():
    queue = loaded(count=3, start=0)
    batch = queue.take(1, 1)
    assert queue.pull_gate(1) is PullGate.OPEN
    assert queue.restart_at(2, Drop.OFFSET_ILLEGAL)
    queue.finish(batch, Disposition.COMMIT, 2)
    assert queue.unsaved(2) == 2


def test_a_reset_may_go_back():
    queue = loaded(count=3, start=0)
    batch = queue.take(3, 1)
    queue.finish(batch, Disposition.COMMIT, 1)
    queue.fence.note(3, NOW)
    assert queue.restart_at(1, Drop.OFFSET_ILLEGAL)
    assert queue.unsaved(2) == 1


def test_filtered_messages_count_as_done_only_when_nothing_lower_is_open():
    queue = loaded(count=1)
    queue.pull_gate(1)
    queue.pulled([], 10)
    assert queue.offset == 0
    queue.finish(queue.take(1, 1), Disposition.COMMIT, 1)
    assert queue.offset == 10


def test_a_late_pull_reply_after_a_drop_is_not_taken_in():
    queue = owned()
    queue.pull_gate(0)
    queue.drop(Drop.REVOKED)
    assert not queue.pulled([message(0)], 1)
    assert queue.messages.count == 0


def stored(offset, at):
    return replace(message(offset), store_time=at)


def test_the_first_message_that_is_pulled_is_the_landmark_and_stays_it():
    """A later one may be of a new generation already."""
    queue = owned()
    queue.pulled([], 2)
    assert queue.fence.landmark is None, "all was filtered"
    queue.pulled([stored(2, 1.5), stored(3, 1.6)], 4)
    assert queue.fence.landmark == Landmark(2, 1500)
    queue.finish(queue.take(2, 1), Disposition.COMMIT, 1)
    queue.pulled([stored(4, 9.0)], 5)
    assert queue.fence.landmark == Landmark(2, 1500)


def test_the_message_below_the_start_stays_the_landmark():
    queue = owned(3, fence=Fence(3, landmark=Landmark(2, 1500)))
    queue.pulled([stored(3, 9.0)], 4)
    assert queue.fence.landmark == Landmark(2, 1500)


def test_what_former_owners_finished_ahead_is_a_landmark_too():
    """It is there, though it is not handed out."""
    queue = owned(3, by_key=True, finished=((3, 5),))
    assert not queue.pulled([stored(3, 1.5), stored(4, 1.6)], 5, None, ["a", "b"])
    assert queue.fence.landmark == Landmark(3, 1500)


def test_a_reply_after_a_drop_makes_no_landmark():
    queue = owned()
    queue.drop(Drop.REVOKED)
    queue.pulled([message(0)], 1)
    assert queue.fence.landmark is None


def test_the_pull_gate_closes_when_full_and_asks_again_at_half():
    queue = loaded(count=5, max_messages=4)
    assert queue.pull_gate(1) is PullGate.FULL
    for left in (4, 3):
        queue.finish(queue.take(1, 1), Disposition.COMMIT, 1)
        assert not queue.wants_pull, left
    queue.finish(queue.take(1, 1), Disposition.COMMIT, 1)
    assert queue.wants_pull
    assert queue.pull_gate(1) is PullGate.OPEN
    assert not queue.wants_pull


def test_the_pull_gate_counts_bytes_too():
    queue = loaded(count=3, max_messages=100, max_bytes=250)
    assert queue.pull_gate(1) is PullGate.FULL


def test_the_pull_gate_says_why_it_is_closed():
    queue = owned()
    assert queue.pull_gate(0) is PullGate.OPEN
    assert queue.pull_gate(0) is PullGate.BUSY
    assert queue.pull_gate(TRUST) is PullGate.NOT_LOCKED
    queue.drop(Drop.CLOSING)
    assert queue.pull_gate(0) is PullGate.DROPPED


def test_a_pull_that_finds_the_lease_expired_gives_the_queue_up():
    queue = owned()
    assert queue.pull_gate(TRUST) is PullGate.NOT_LOCKED
    assert queue.dropped is Drop.LOST


def test_what_a_manual_commit_keeps_in_hand_does_not_stop_the_pulling():
    queue = loaded(count=5, max_messages=4)
    assert queue.pull_gate(1) is PullGate.FULL
    queue.finish(queue.take(2, 1), Disposition.COMMIT, 1)
    queue.finish(queue.take(3, 1), Disposition.KEEP, 1)
    assert queue.messages.pending == 0
    assert queue.wants_pull
    assert not queue.stuck_full


def test_a_queue_full_of_uncommitted_messages_says_so():
    queue = loaded(count=5, max_messages=4)
    queue.pull_gate(1)
    queue.finish(queue.take(5, 1), Disposition.KEEP, 1)
    assert queue.stuck_full
    assert not queue.wants_pull


def test_by_key_the_next_run_is_claimed_when_the_last_one_has_begun():
    queue = OwnedQueue(
        QUEUE, 0, Lease(0.0, TRUST), max_messages=9, max_bytes=999, by_key=True, max_runs=2
    )
    queue.pull_gate(0)
    assert queue.pulled([message(0), message(1), message(2)], 3, None, ["a", "b", "c"])
    assert queue.request_run()
    assert not queue.request_run(), "one that has not begun is enough"
    queue.begin_run()
    assert queue.request_run()
    queue.begin_run()
    assert not queue.request_run(), "as many as may be are under way"


def test_after_a_defect_everything_in_hand_comes_again_and_its_run_is_over():
    queue = loaded(count=3)
    assert queue.request_run()
    queue.begin_run()
    batch = queue.take(2, 1)
    queue.finish(batch, Disposition.ROLLBACK, 1)
    queue.end_run()
    assert queue.idle
    assert queue.request_run(), "the run of the defect is over"
    assert queue.take(2, 2).messages == batch.messages


def test_a_dead_letter_moves_the_offset_and_never_comes_again():
    queue = held(0, 1, 2)
    batch = queue.take(3, NOW)
    queue.finish(batch, Disposition.PUT_BACK, NOW, finished={0, 1})
    assert queue.offset == 2
    assert offsets(queue.take(3, NOW)) == [2]


def test_a_dead_letter_behind_a_failed_message_does_not_move_the_offset():
    queue = held(0, 1, 2)
    queue.finish(queue.take(3, NOW), Disposition.PUT_BACK, NOW, finished={1})
    assert queue.offset == 0
    assert offsets(queue.take(3, NOW)) == [0, 2]


def test_a_paused_queue_hands_nothing_out_and_goes_on_where_it_was():
    queue = held(0, 1)
    queue.pause()
    assert queue.take(1, NOW) is None
    assert queue.pull_gate(NOW) is PullGate.PAUSED
    queue.resume(NOW)
    assert queue.request_run()
    assert offsets(queue.take(1, NOW)) == [0]


def test_a_message_in_hand_during_a_pause_still_counts():
    queue = held(0, 1)
    batch = queue.take(1, NOW)
    queue.pause()
    queue.finish(batch, Disposition.COMMIT, NOW)
    assert queue.offset == 1


def test_after_a_seek_results_in_hand_do_not_count():
    queue = held(5, 6)
    batch = queue.take(1, NOW)
    assert queue.restart_at(0, Drop.MOVED)
    queue.finish(batch, Disposition.COMMIT, NOW)
    assert queue.unsaved(NOW) == 0


def test_a_queue_that_is_not_pulled_for_two_minutes_is_stalled_unless_it_may_not_be_pulled():
    queue = owned(asked_at=NOW)
    assert not queue.pull_stalled(NOW + PULL_IDLE)
    assert queue.pull_stalled(NOW + PULL_IDLE + 1)
    queue.pause()
    assert not queue.pull_stalled(NOW + PULL_IDLE + 1)
    queue.resume(NOW + PULL_IDLE)
    assert not queue.pull_stalled(NOW + PULL_IDLE + 1)


def test_a_message_that_was_not_tried_has_no_attempt_counted():
    queue = held(0, 1, 2)
    queue.finish(queue.take(3, NOW), Disposition.PUT_BACK, NOW, finished={0}, untried={2})
    again = queue.take(3, NOW).messages
    assert [(m.queue_offset, m.reconsume_times) for m in again] == [(1, 1), (2, 0)]


def test_bodies_that_were_asked_for_before_a_reset_do_not_undo_it():
    queue = owned(start=5, by_key=True)
    queue.pulled([message(n) for n in range(5, 80)], 80, None, ["a"] * 75)
    while (batch := queue.take(9, NOW)) is not None:
        queue.finish(batch, Disposition.COMMIT, NOW)
    asked = queue.refill_gate(NOW)
    assert queue.restart_at(2, Drop.MOVED)
    queue.refilled(asked, [message(asked)], asked + 1)
    assert queue.unsaved(NOW) == 2


def test_bodies_are_asked_for_once_until_they_came():
    queue = owned(by_key=True)
    queue.pulled([message(n) for n in range(75)], 75, None, ["a"] * 75)
    assert not queue.refilling
    assert queue.refill_gate(NOW) is None, "nothing is missed yet"
    assert not queue.refilling
    while (batch := queue.take(9, NOW)) is not None:
        queue.finish(batch, Disposition.COMMIT, NOW)
    asked = queue.refill_gate(NOW)
    assert (asked, queue.refilling) == (queue.offset, True)
    assert queue.refill_gate(NOW) is None
    assert not queue.wants_bodies(NOW)
    queue.refilled(asked, [], asked)
    assert queue.refill_gate(NOW) == asked, "it failed"
    assert queue.refilled(asked, [message(asked + 1)], asked + 2) == [asked], "it is gone"
    assert queue.offset == asked + 1


def test_what_is_done_of_a_stretch_counts_while_the_rest_is_in_work():
    queue = loaded(4)
    batch = queue.take(4, NOW)
    batch.done = 1
    queue.catch_up(batch)
    assert (queue.offset, queue.messages.count, queue.messages.size) == (1, 3, 300)
    queue.catch_up(batch)
    assert queue.offset == 1
    batch.done = 2
    queue.narrow(batch, 1)
    assert offsets(batch) == [2]
    assert (queue.offset, queue.messages.in_hand, queue.messages.pending) == (2, 1, 1)
    queue.finish(batch, Disposition.COMMIT, NOW)
    again = queue.take(4, NOW)
    assert [(m.queue_offset, m.reconsume_times) for m in again.messages] == [(3, 0)]


def test_of_a_stretch_that_ended_elsewhere_nothing_counts():
    queue = loaded(4)
    batch = queue.take(4, NOW)
    batch.done = 2
    assert queue.restart_at(0, Drop.MOVED)
    queue.catch_up(batch)
    queue.narrow(batch, 1)
    assert (queue.offset, offsets(batch)) == (0, [2])


def test_a_stretch_goes_on_while_its_queue_is_held_and_not_paused():
    queue = loaded(2)
    batch = queue.take(2, NOW)
    assert queue.hands_out(batch, NOW)
    assert not queue.hands_out(batch, TRUST)
    queue.paused = True
    assert not queue.hands_out(batch, NOW)
    queue.paused = False
    batch.lane.paused = True
    assert not queue.hands_out(batch, NOW)
    batch.lane.paused = False
    queue.drop(Drop.REVOKED)
    assert not queue.hands_out(batch, NOW)


@pytest.mark.parametrize("by_key", [True, False])
def test_a_lane_task_has_the_turn_of_its_keys_lane(by_key):
    """By queue there is one lane, so nothing else is handed out meanwhile."""
    queue = owned(by_key=by_key, max_runs=2)
    queue.pulled([message(0)], 1, None, ["b"] if by_key else None)
    queue.want_turn("a", Turn("replay"))
    taken = [queue.take(1, NOW), queue.take(1, NOW)]
    assert (taken[1] is not None) is by_key
    (lane_task,) = (batch for batch in taken if batch and batch.lane_task)
    assert (lane_task.lane_task, lane_task.key) == ("replay", "a" if by_key else None)
    queue.give_back(lane_task, NOW)
    (other,) = (b for b in (*taken, queue.take(1, NOW)) if b and not b.lane_task)
    assert offsets(other) == [0]


def test_a_batch_that_was_finished_is_not_in_work_though_its_key_has_another():
    queue = owned(by_key=True, max_runs=2)
    queue.pulled([message(n) for n in range(3)], 3, None, "aaa")
    finished = queue.take(1, NOW)
    queue.finish(finished, Disposition.COMMIT, NOW)
    running = queue.take(1, NOW)
    assert not queue.messages.in_work(finished)
    assert queue.messages.in_work(running)
    assert queue.take(1, NOW) is None, "no second message of the key beside the running one"
    queue.finish(running, Disposition.COMMIT, NOW)
    assert queue.offset == 2


def keys_loaded(keys, **settings):
    queue = owned(by_key=True, max_runs=9, **settings)
    queue.pull_gate(NOW)
    queue.pulled([message(n) for n in range(len(keys))], len(keys), None, keys)
    return queue


def test_what_failing_keys_keep_does_not_stop_the_pulling_of_the_others():
    """As many of them as the window takes, and each with more messages than one."""
    queue = keys_loaded([f"bad{n // 12}" for n in range(600)] + ["good"], max_messages=60)
    for _ in range(50):
        queue.finish(queue.take(1, NOW), Disposition.PUT_BACK, NOW, wait=60.0)
    queue.pull_gate(NOW)
    queue.finish(queue.take(1, NOW), Disposition.COMMIT, NOW)
    assert queue.wants_pull or queue.pulling
    assert queue.messages.count <= 60


def test_a_slow_key_and_failing_ones_do_not_stop_the_pulling_together():
    queue = keys_loaded(
        ["slow", *(f"bad{n}" for n in range(40)), *"abcdefghijklmnopqrst"], max_messages=60
    )
    assert queue.pull_gate(NOW) is PullGate.FULL
    queue.take(1, NOW)
    for _ in range(40):
        queue.finish(queue.take(1, NOW), Disposition.PUT_BACK, NOW, wait=60.0)
    while (batch := queue.take(1, NOW)) is not None:
        queue.finish(batch, Disposition.COMMIT, NOW)
    assert queue.wants_pull, "41 of 60 are kept, and none of them can move"


def test_unfinished_messages_are_bounded_also_where_their_bodies_came_again():
    queue = keys_loaded(["a"] * 500, max_messages=100)
    for _ in range(30):
        asked = queue.refill_gate(NOW)
        while (batch := queue.take(9, NOW)) is not None:
            queue.finish(batch, Disposition.KEEP, NOW)
        if asked is not None:
            queue.refilled(asked, [message(asked + n) for n in range(32)], asked + 32)
    assert queue.messages.count == 101
    assert queue.stuck_full


def test_what_is_finished_ahead_is_worked_out_from_a_copy():
    queue = keys_loaded("abab")
    queue.take(1, NOW)
    queue.finish(queue.take(1, NOW), Disposition.COMMIT, NOW)
    ahead = queue.ahead
    queue.finish(queue.take(1, NOW), Disposition.COMMIT, NOW)
    assert ahead.finished == ((1, 2),)
    assert queue.finished_ahead == ((1, 2), (3, 4))


def test_what_is_finished_of_a_key_is_below_its_lowest_or_inherited():
    queue = OwnedQueue(
        QUEUE,
        10,
        Lease(0.0, 30.0),
        max_messages=100,
        max_bytes=10**6,
        by_key=True,
        finished=((14, 15),),
    )
    queue.pull_gate(0)
    queue.pulled([message(10), message(11)], 12, None, ["a", "b"])
    asked = [9, 10, 11, 12, 14]
    assert [queue.is_finished("a", offset) for offset in asked] == [True, False, False, False, True]
    assert queue.is_finished("c", 11)
    queue.finish(queue.take(1, 0), Disposition.COMMIT, 0)
    assert queue.is_finished("a", 10)


def test_bodies_that_an_errand_needs_come_at_once_whatever_waits(monkeypatch):
    """A paused queue pulls nothing else, and a full one has no room for others."""
    queue = owned(by_key=True, max_runs=9, max_messages=1)
    keys = list("abcdef")
    queue.pulled([message(n) for n in range(6)], 6, None, keys)
    for _ in keys:
        queue.finish(queue.take(1, NOW), Disposition.PUT_BACK, NOW, wait=60.0)
    queue.pause()
    assert queue.messages.lane_of("f").later
    assert (queue.refill_gate(NOW), queue.messages.refills) == (None, True)
    queue.want_turn("f", Turn("add", errand=True, with_bodies=True))
    assert queue.take_errand(NOW) is None
    assert queue.refill_gate(NOW) == 5
    queue.messages.limit(1, 1)  # no room at all
    assert queue.refilled(5, [message(5)], 6) == []
    errand = queue.take_errand(NOW)
    assert offsets(queue.messages.take_along("f")) == [5]
    queue.finish(errand, Disposition.PUT_BACK, NOW, untried={5})
    assert queue.messages.lane_of("f").attempts == 1, "no attempt is counted"
    assert queue.messages.suspended == 6
