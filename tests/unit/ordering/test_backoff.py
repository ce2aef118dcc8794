"""Waits double, stay within their bounds whatever the count is, and are spread by chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.backoff import backoff, doubled

FIRST = st.floats(0.01, 3600)
LONGEST = st.floats(0.01, 3600)
FAILURES = st.integers(0, 2**64)
DRAW = st.floats(0, 1, exclude_max=True)


@given(FAILURES, FIRST, LONGEST, DRAW)
def test_a_wait_is_within_its_bounds_whatever_the_count_is(failures, first, longest, draw):
    assert 0.01 <= backoff(failures, first, longest, draw) <= longest


@given(FAILURES, FIRST, LONGEST, DRAW)
def test_one_failure_more_never_shortens_it(failures, first, longest, draw):
    shorter = backoff(failures, first, longest, draw)
    assert shorter <= backoff(failures + 1, first, longest, draw)


@pytest.mark.parametrize("huge", [2**31, 2**63, 10**400], ids=["int", "long", "endless"])
def test_no_count_overflows(huge):
    assert doubled(huge, 0.01, 3600.0) == 3600.0
    assert doubled(huge, 5.0, 60.0) == 60.0
    assert doubled(huge, 1e300, 60.0) == 60.0


def test_it_doubles_from_the_first_wait_to_the_longest():
    assert [doubled(n, 1.0, 60.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert doubled(0, 1.0, 60.0) == 1.0


def test_the_draw_spreads_over_the_upper_half_also_at_the_longest():
    assert backoff(3, 1.0, 60.0, 0.0) == 2.0
    assert backoff(3, 1.0, 60.0, 0.5) == 3.0
    assert backoff(99, 1.0, 60.0, 0.0) == 30.0
    assert 59.9 < backoff(99, 1.0, 60.0, 0.999) < 60.0


def test_the_shortest_wait_is_a_queues_shortest():
    assert backoff(1, 0.01, 60.0, 0.0) == 0.01
