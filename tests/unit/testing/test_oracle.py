"""The oracle passes what is right and catches each way of being wrong."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.testing.oracle import Committed, Delivered, Sent, judge

KEYS = 7
QUEUES = 3


def a_run(count=60):
    """Messages of seven keys over three queues, each delivered once and in order."""
    offsets = dict.fromkeys(range(QUEUES), 0)
    sent = []
    for number in range(count):
        key = number % KEYS
        queue = key % QUEUES
        sent.append(Sent(f"k{key}", number, queue, offsets[queue]))
        offsets[queue] += 1
    return sent, [Delivered(s.key, s.id, s.queue, s.offset) for s in sent]


def of_queue(events, queue=0):
    return [i for i, event in enumerate(events) if event.queue == queue]


def test_a_perfect_run():
    verdict = judge(*a_run())
    assert verdict.ok
    assert (verdict.sent, verdict.delivered, verdict.keys, verdict.queues) == (60, 60, 7, 3)
    assert (verdict.duplicates, verdict.log_duplicates, verdict.examples) == (0, 0, [])


def test_queues_may_interleave_in_any_way():
    sent, events = a_run()
    assert judge(sent, sorted(events, key=lambda e: (e.queue, e.offset))).ok


@given(st.integers(0, 18))
def test_two_deliveries_swapped_are_caught(position):
    sent, events = a_run()
    one, two = of_queue(events)[position : position + 2]
    events[one], events[two] = events[two], events[one]
    assert not judge(sent, events).ok


@given(st.integers(0, 59))
def test_a_dropped_delivery_is_lost_and_skipped(position):
    sent, events = a_run()
    del events[position]
    assert judge(sent, events).lost == 1


@given(st.integers(0, 59))
def test_a_failure_that_was_passed_over_is_caught(position):
    sent, events = a_run()
    events[position] = replace(events[position], success=False)
    verdict = judge(sent, events)
    assert verdict.lost == 1
    is_last = events[position].offset == max(
        e.offset for e in events if e.queue == events[position].queue
    )
    assert (verdict.skipped > 0) != is_last


@given(st.integers(0, 59), st.integers(1, 5))
def test_a_failed_message_may_come_again_at_once(position, times):
    sent, events = a_run()
    failed = replace(events[position], success=False)
    events[position:position] = [failed] * times
    verdict = judge(sent, events)
    assert verdict.ok
    assert verdict.duplicates == times


@given(st.integers(0, 19), st.integers(0, 19))
def test_a_restart_may_go_back_but_not_below_what_was_committed(at, back_to):
    at, back_to = max(at, back_to), min(at, back_to)
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    history = queue[: at + 1] + queue[back_to:]
    verdict = judge(sent, others + history)
    assert verdict.ok
    assert verdict.duplicates == at + 1 - back_to
    commit = [Committed(0, queue[back_to].offset + 1)]
    assert judge(sent, others + queue[: at + 1] + commit + queue[back_to:]).rewound == 1


def test_a_restart_that_leaves_a_gap_is_caught():
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    history = queue[:10] + queue[3:5] + queue[7:]
    assert judge(sent, others + history).skipped == 1


def test_a_message_stored_twice_is_counted_apart():
    sent, events = a_run(3)
    twin = replace(events[0], offset=1000)
    verdict = judge(sent, [*events, twin])
    assert verdict.ok
    assert (verdict.log_duplicates, verdict.duplicates) == (1, 0)


def test_a_key_placed_out_of_order_by_the_producer_is_caught():
    sent = [Sent("k", "first", 0, 1), Sent("k", "second", 0, 0)]
    events = [Delivered("k", "second", 0, 0), Delivered("k", "first", 0, 1)]
    assert judge(sent, events).disorder > 0


def test_two_handlers_on_one_queue_are_caught():
    sent = [Sent("a", 1, 0, 0), Sent("b", 2, 0, 1)]
    events = [
        Delivered("a", 1, 0, 0, started=1.0, ended=3.0),
        Delivered("b", 2, 0, 1, started=2.0, ended=4.0),
    ]
    assert judge(sent, events).overlaps == 1
    assert judge(sent, [events[0], replace(events[1], started=3.0)]).ok


def by_a_former_owner(events, *places, success=True):
    return [replace(events[place], excused=True, success=success) for place in places]


def test_what_is_excused_is_in_no_order_and_the_rest_is():
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    astray = by_a_former_owner(queue, 8, 2, 9)
    verdict = judge(sent, others + queue[:5] + astray + queue[5:])
    assert verdict.ok
    assert verdict.excused == 3
    queue[6], queue[7] = queue[7], queue[6]
    assert not judge(sent, others + queue[:5] + astray + queue[5:]).ok


@pytest.mark.parametrize(("success", "passed"), [(True, 5), (True, 6), (False, 5)])
def test_what_is_finished_and_excused_may_be_passed_over_and_nothing_else(success, passed):
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    astray = by_a_former_owner(queue, 5, success=success)
    verdict = judge(sent, others + queue[:5] + astray + queue[passed + 1 :])
    assert verdict.ok == (success and passed == 5)
    assert verdict.lost == (0 if success else 1) + (passed - 5)
    failed = replace(queue[5], success=False)
    verdict = judge(sent, others + queue[:5] + [failed] + astray + queue[passed + 1 :])
    assert verdict.ok == (success and passed == 5)


def test_what_was_finished_and_excused_may_come_again_behind_the_next_message():
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    batch = [*by_a_former_owner(queue, 5), queue[6], *queue[5:]]
    assert judge(sent, others + queue[:5] + batch).ok
    unfinished = [*by_a_former_owner(queue, 5, success=False), queue[6], *queue[5:]]
    assert not judge(sent, others + queue[:5] + unfinished).ok


def test_what_is_finished_and_excused_later_could_not_be_passed_over():
    sent, events = a_run()
    queue = [events[i] for i in of_queue(events)]
    others = [e for e in events if e.queue != 0]
    verdict = judge(sent, others + queue[:5] + queue[6:] + by_a_former_owner(queue, 5))
    assert (verdict.lost, verdict.skipped) == (0, 1)


def test_a_message_nobody_sent_is_caught():
    sent, events = a_run(3)
    assert judge(sent[:-1], events).unknown == 1


def test_violations_are_told_in_words_but_not_by_the_thousand():
    sent, _ = a_run()
    verdict = judge(sent, [])
    assert verdict.lost == 60
    assert len(verdict.examples) == 10
    assert "k0" in verdict.examples[0]


@pytest.mark.parametrize("count", [0, 1])
def test_small_runs(count):
    assert judge(*a_run(count)).ok


def test_a_copy_in_another_queue_is_no_mere_duplicate():
    sent, events = a_run(3)
    assert judge(sent, [*events, replace(events[0], queue=2, offset=50)]).disorder == 1


def a_log_with_a_copy():
    """m0 is stored at 0 and at 2, and its producer was told of the second; m1 is at 1, m2 at 3."""
    sent = [Sent("k", "m0", 0, 2), Sent("k", "m1", 0, 1), Sent("k", "m2", 0, 3)]
    first = Delivered("k", "m0", 0, 0)
    return sent, first, Delivered("k", "m1", 0, 1), Delivered("k", "m2", 0, 3)


def test_a_copy_may_be_left_out_where_the_first_one_was_finished():
    sent, first, second, third = a_log_with_a_copy()
    verdict = judge(sent, [first, second, third])
    assert verdict.ok
    assert (verdict.log_duplicates, verdict.duplicates) == (1, 0)


def test_a_copy_must_not_be_left_out_where_the_first_one_was_not_finished():
    sent, first, second, third = a_log_with_a_copy()
    failed = replace(first, success=False)
    assert not judge(sent, [failed, second, third]).ok
    assert judge(sent, [second, third]).skipped == 1
    assert judge(sent, [second, third]).lost == 1


def test_the_first_copy_must_not_be_left_out_for_a_later_one():
    sent, first, second, third = a_log_with_a_copy()
    late = replace(first, offset=2)
    events = [replace(first, success=False), second, late, third]
    assert judge(sent, events).skipped == 1
