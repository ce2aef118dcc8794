import json

from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.spark.offsets.advancing import (
    advanced,
    beginning,
    between,
    first_checkpoint,
    next_checkpoint,
    offsets_in,
    stranded,
)
from orderly.spark.offsets.losses import CUT, GONE, Loss, Span
from orderly.spark.offsets.ranges import QueueRange

A, B, NEW = (MessageQueue("orders", "broker-a", n) for n in range(3))
NUMBERS = st.integers(0, 50)
OFFSETS = st.dictionaries(st.sampled_from([A, B, NEW]), NUMBERS)
SPANS = st.dictionaries(
    st.sampled_from([A, B, NEW]),
    st.builds(lambda low, size: Span(low, low + size), NUMBERS, NUMBERS),
)
LIMITS = st.none() | st.integers(1, 60)


def nobody(queue):
    return False


def kept(table):
    """As Spark hands it back."""
    return json.loads(json.dumps(table))


@given(OFFSETS, SPANS, LIMITS)
def test_offsets_never_run_backwards_and_no_queue_is_forgotten(start, spans, limit):
    end = advanced(start, spans, limit)
    assert start.keys() <= end.keys()
    assert all(end[queue] >= at for queue, at in start.items())
    assert all(at <= spans[queue].high for queue, at in end.items() if at > start.get(queue, 0))


@given(OFFSETS, SPANS, st.integers(1, 60))
def test_a_limited_stream_arrives_where_an_unlimited_one_does(start, spans, limit):
    goal, at = advanced(start, spans, None), start
    for _ in range(200):
        step = advanced(at, spans, limit)
        if step == at:
            break
        at = step
    assert at == goal


def test_a_new_queue_begins_with_its_first_message_and_counts_when_it_has_one():
    assert advanced({A: 5}, {A: Span(0, 5), NEW: Span(0, 0)}, None) == {A: 5}
    end = advanced({A: 5}, {A: Span(0, 7), NEW: Span(0, 3)}, None)
    assert between({A: 5}, end) == [QueueRange(A, 5, 7), QueueRange(NEW, 0, 3)]


def test_what_expired_before_its_turn_is_part_of_the_range_so_that_it_is_missed():
    end = advanced({A: 5}, {A: Span(20, 30)}, 4)
    assert between({A: 5}, end) == [QueueRange(A, 5, 24)]


def test_a_queue_that_is_cut_off_or_gone_stays_and_is_told():
    spans = {A: Span(0, 3)}
    assert advanced({A: 5, B: 7}, spans, None) == {A: 5, B: 7}
    assert stranded({A: 5, B: 7}, spans, {B}.__contains__) == [
        Loss(A, 3, 5, CUT),
        Loss(B, 7, 7, GONE),
    ]
    assert stranded({A: 3, B: 7}, spans, nobody) == []


def test_nothing_new_is_the_same_checkpoint():
    for start in (first_checkpoint({A: 5}), next_checkpoint(first_checkpoint({A: 1}), {A: 5})):
        assert next_checkpoint(start, {A: 5}) == start


def test_the_first_batch_begins_where_it_did_though_its_start_is_asked_for_again():
    end = kept(next_checkpoint(first_checkpoint({A: 5}), {A: 9}))
    again = kept(first_checkpoint({A: 7, B: 1}))  # "latest", some time later
    assert beginning(again, end) == {A: 5}
    assert offsets_in(end) == {A: 9}


def test_later_batches_begin_where_the_one_before_ended():
    first = kept(next_checkpoint(first_checkpoint({A: 5}), {A: 9}))
    second = kept(next_checkpoint(first, {A: 12, B: 2}))
    assert beginning(first, second) == {A: 9}
    assert beginning(first, first) == {A: 9}  # nothing new: nothing is read again
    assert second == {"orders": {"broker-a": {"0": 12, "1": 2}}}


def test_an_empty_first_batch_does_not_move_the_beginning():
    start = kept(first_checkpoint({A: 5}))
    assert between(beginning(kept(first_checkpoint({A: 8})), start), offsets_in(start)) == []
    second = kept(next_checkpoint(start, {A: 9}))
    assert beginning(start, second) == {A: 5}
