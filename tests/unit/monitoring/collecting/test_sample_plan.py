"""Which messages are read: as many of each queue as come into it, none twice, in fair order."""

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from orderly.monitoring.collecting.sample_plan import plan, shares
from orderly.monitoring.skew.inflow import Span
from tests.support.scans import queue

SPANS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 2000)).map(lambda s: Span(s[0], s[0] + s[1])),
    max_size=8,
).map(lambda spans: {queue(at): span for at, span in enumerate(spans)})


def offsets(stretches):
    return [(each.queue, each.start + at) for each in stretches for at in range(each.count)]


def held(spans):
    return {queue: span.maximum - span.minimum for queue, span in spans.items()}


@given(SPANS, st.integers(0, 3000), st.booleans())
@example({queue(0): Span(0, 38)}, 37, True)  # pieces that would overlap
def test_no_message_is_read_twice_and_none_that_is_not_there(spans, number, spread):
    found = offsets(plan(spans, held(spans), number, spread=spread))
    assert len(found) == len(set(found)) <= number
    assert all(spans[q].minimum <= offset < spans[q].maximum for q, offset in found)


@given(SPANS, st.integers(1, 3000))
def test_each_queue_has_its_share_of_the_sample(spans, number):
    weights = held(spans)
    found = shares(spans, weights, number)
    assert sum(found.values()) == min(number, sum(weights.values()))
    for each, weight in weights.items():
        fair = weight * min(1.0, number / sum(weights.values())) if weight else 0
        assert abs(found.get(each, 0) - fair) <= 1


@given(SPANS, st.integers(1, 3000))
def test_the_last_messages_are_the_last_ones(spans, number):
    stretches = plan(spans, held(spans), number, spread=False)
    for each, count in shares(spans, held(spans), number).items():
        end = spans[each].maximum
        mine = sorted(offset for q, offset in offsets(stretches) if q == each)
        assert mine == list(range(end - count, end))


@given(SPANS, st.integers(1, 3000))
def test_spread_messages_come_from_the_whole_span(spans, number):
    stretches = plan(spans, held(spans), number, spread=True)
    for each, count in shares(spans, held(spans), number).items():
        mine = sorted(offset for q, offset in offsets(stretches) if q == each)
        assert len(mine) >= count - -(-count // 8), "a few less, where pieces would overlap"
        gap = (spans[each].maximum - spans[each].minimum) / -(-count // 8)
        edges = [spans[each].minimum - 1, *mine, spans[each].maximum]
        assert max(b - a for a, b in pairwise(edges)) <= gap + 2


def test_a_sample_that_is_cut_short_has_all_queues_in_proportion():
    spans = {queue(0): Span(0, 6400), queue(1): Span(0, 640)}
    stretches = plan(spans, held(spans), 7040, spread=False)
    half = offsets(stretches)[:3520]
    assert 3100 <= sum(q == queue(0) for q, _ in half) <= 3300
    assert half[0][1] >= 6400 - 32, "the newest come first"


def test_a_queue_that_is_not_known_and_one_without_inflow_are_not_read():
    spans = {queue(0): Span(0, 10), queue(1): Span(0, 10)}
    assert {each.queue for each in plan(spans, {queue(0): 5, queue(1): 0}, 4, spread=False)} == {
        queue(0)
    }
    assert plan(spans, dict.fromkeys(spans, 0), 4, spread=False) == []
