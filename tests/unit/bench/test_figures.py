"""Rates of stretches, and shares that make 1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.bench.figures import IDLE, Curve, Rate, Where, rate_of, shares_of, window_of


def test_an_even_count_has_one_rate():
    curve = Curve([0.0, 10.0], [0, 1000])
    assert rate_of(curve, 0, 10) == Rate(*[pytest.approx(100)] * 4)


def test_the_slowest_and_the_fastest_second():
    curve = Curve([0, 1, 2, 3, 4, 5, 6], [0, 100, 300, 300, 400, 500, 600])
    found = rate_of(curve, 0, 6)
    assert (found.minimum, found.median, found.maximum) == (0, 100, 200)
    assert found.mean == 100


def test_a_short_run_has_five_stretches():
    assert (window_of(0.5), window_of(5), window_of(60)) == (0.1, 1.0, 1.0)


@pytest.mark.parametrize("curve", [Curve(), Curve([1.0], [5])])
def test_of_nothing_there_is_no_rate(curve):
    assert rate_of(curve, 1, 1) == Rate(0, 0, 0, 0)


CPU = st.fixed_dictionaries({kind: st.floats(0, 5) for kind in (Where.ENCODE, Where.DECODE)})


@given(st.floats(0.1, 10), st.floats(0, 20), CPU, st.lists(st.sampled_from(IDLE), min_size=1))
def test_shares_make_1(seconds, cpu, booked, idle):
    found = shares_of(seconds, cpu, booked, idle)
    assert sum(found.values()) == pytest.approx(1)
    assert min(found.values()) >= 0


def test_that_nothing_was_waited_for_is_told():
    assert shares_of(1.0, 1.0, {Where.ENCODE: 1.0}, [Where.BROKER, Where.PACING]) == {
        Where.ENCODE: 1.0,
        Where.OTHER: 0.0,
        Where.BROKER: 0.0,
    }


def test_what_is_not_computed_is_waited_for():
    found = shares_of(10, 4, {Where.ENCODE: 3.0}, [Where.BROKER, Where.BROKER, Where.PACING])
    assert found == {
        Where.ENCODE: 0.3,
        Where.OTHER: pytest.approx(0.1),
        Where.BROKER: pytest.approx(0.4),
        Where.PACING: pytest.approx(0.2),
    }
