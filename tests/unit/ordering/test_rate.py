"""A rate lets no more messages begin in any stretch of time than it says, and no fewer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.rate import AT_ONCE, Rate

STEPS = st.lists(st.tuples(st.floats(0, 2), st.integers(1, 20)), max_size=60)


@given(per_second=st.sampled_from([0.5, 1.0, 7.0, 50.0, 1000.0]), steps=STEPS)
def test_in_no_stretch_of_time_more_begin_than_it_says(per_second, steps):
    rate, now, begun = Rate(per_second), 100.0, []
    for seconds, wanted in steps:
        now += seconds
        granted = min(wanted, rate.available(now))
        rate.take(granted, now)
        begun += [now] * granted
    for first in range(len(begun)):
        for last in range(first, len(begun)):
            most = max(1.0, per_second * AT_ONCE) + (begun[last] - begun[first]) * per_second
            assert last - first + 1 <= most + 1e-6


@pytest.mark.parametrize("per_second", [0.5, 7.0, 50.0, 1000.0])
def test_who_waits_as_long_as_it_says_gets_one(per_second):
    rate, now = Rate(per_second), 100.0
    for _ in range(500):
        now += rate.wait(now)
        assert rate.available(now) >= 1
        rate.take(1, now)
    assert now - 100.0 == pytest.approx((500 - rate.room) / per_second, rel=0.01, abs=0.1)


def test_what_is_given_back_can_be_taken_again():
    rate = Rate(10.0)
    rate.take(rate.available(0.0), 0.0)
    assert rate.available(0.0) == 0
    rate.give_back(1)
    assert rate.available(0.0) == 1


def test_what_begins_in_any_case_makes_the_next_wait():
    rate = Rate(10.0)
    rate.take(5, 0.0)
    assert rate.available(0.3) == 0
    assert rate.wait(0.0) == pytest.approx(0.5)
