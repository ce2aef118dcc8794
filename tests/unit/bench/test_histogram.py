"""Percentiles are those of the times, to 2.2 %, also of several threads together."""

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.bench.histogram import Histogram, summary

TIMES = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=300)


def filled(times):
    histogram = Histogram()
    for seconds in times:
        histogram.add(seconds)
    return histogram


@given(TIMES, TIMES)
def test_percentiles(one, other):
    found = summary([filled(one), filled(other)])
    everything = sorted(one + other)
    assert (found.count, found.max) == (len(everything), everything[-1])
    assert found.mean == pytest.approx(statistics.fmean(everything))
    for share, value in (0.5, found.p50), (0.9, found.p90), (0.99, found.p99):
        exact = everything[-int(-len(everything) * share // 1) - 1]
        assert value == pytest.approx(exact, rel=0.023)


def test_of_nothing_there_are_none():
    assert summary([Histogram()]) is None


def test_a_clock_that_was_set_back_does_no_harm():
    assert summary([filled([-5.0, 0.0])]).p50 == pytest.approx(1e-9, rel=0.03)
