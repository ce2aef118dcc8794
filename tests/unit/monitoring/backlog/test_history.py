"""When a message was stored: between what was seen, never beyond it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.history import POINTS, OffsetHistory, RateEstimator

STEPS = st.lists(st.tuples(st.integers(1, 50), st.integers(0, 40)), min_size=2, max_size=80)


def grown(points):
    curve = OffsetHistory()
    for at, end in points:
        curve.note(at, end)
    return curve


def when(curve, offset, known=-1, known_at=0.0):
    return curve.stored_at(offset, known, known_at)


@given(STEPS, st.integers(0, 3000))
def test_a_time_lies_between_the_looks_around_it(steps, offset):
    at, end, points = 1000.0, 0, []
    for seconds, messages in steps:
        at, end = at + seconds, end + messages
        points.append((at, end))
    found = when(grown(points), offset)
    if found is not None:
        before = max(t for t, e in points if e <= offset)
        after = min(t for t, e in points if e > offset)
        assert before <= found <= after
    elif offset < end:
        assert offset < points[0][1] or len(points) > POINTS


def test_even_growth_is_read_off_exactly():
    curve = grown([(1000.0, 0), (1010.0, 100), (1020.0, 200)])
    assert when(curve, 50) == pytest.approx(1005.05, abs=0.1)
    assert when(curve, 150) == pytest.approx(1015.05, abs=0.1)


@pytest.mark.parametrize("offset", [9, 200])
def test_beyond_what_was_seen_nothing_is_known(offset):
    assert when(grown([(1000.0, 10), (1010.0, 100)]), offset) is None


def test_one_look_tells_nothing():
    assert when(grown([(1000.0, 10)]), 5) is None


def test_a_level_stretch_costs_two_points_and_ends_at_its_last_look():
    curve = grown([(1000.0 + n, 10) for n in range(500)] + [(1500.0, 11)])
    assert 1499.0 <= when(curve, 10) <= 1500.0
    assert len(curve._ends) == 3


def test_a_level_stretch_begins_at_its_first_look():
    curve = grown([(1000.0, 5), (1010.0, 10), (1020.0, 10), (1030.0, 10), (1040.0, 11)])
    assert 1000.0 <= when(curve, 7) <= 1010.0


def test_an_older_message_of_known_time_is_one_more_point():
    curve = grown([(1000.0, 100), (1010.0, 110)])
    assert when(curve, 50, 0, 900.0) == pytest.approx(950.0, abs=1)
    assert when(curve, 0, 0, 900.0) == 900.0
    assert when(curve, 50, 60, 900.0) is None


def test_a_queue_that_got_shorter_begins_anew():
    curve = grown([(1000.0, 100), (1010.0, 200), (1020.0, 5), (1030.0, 15)])
    assert when(curve, 150) is None
    assert len(curve._ends) == 2
    assert 1020.0 <= when(curve, 10) <= 1030.0


def test_a_rate_is_of_the_last_window_and_not_of_all_that_was_seen():
    """A queue that got ten messages a second for an hour, and then nothing any more."""
    rates = RateEstimator(0.0, [0])
    for at in range(10, 3600, 10):
        assert rates.rates(at, [at * 10], 60.0)[0][0] == pytest.approx(10.0)
    told = [rates.rates(at, [35_900], 60.0) for at in range(3600, 3730, 10)]
    assert all(30.0 <= elapsed <= 60.0 for _, elapsed in told)
    assert told[-1][0][0] == 0.0


def test_a_rate_is_not_known_where_an_offset_is_not_or_went_back():
    rates = RateEstimator(0.0, [0, -1, 5, 5])
    assert list(rates.rates(10.0, [20, 7, -1, 4], 60.0)[0]) == [2.0, None, None, None]
    assert rates.rates(0.0, [20, 7, 5, 5], 60.0) == ([None] * 4, 0.0)
