import pytest

from orderly.spark.jobs.backlog.figures import figures
from tests.support.backlog_series import series


def test_lags_are_told_by_their_spread():
    found = figures(series([0, 10, 30, 20, 0]))
    assert (found.last, found.mean, found.median, found.most, found.most_at) == (0, 12, 10, 30, 30)
    assert found.p95 == pytest.approx(28)
    assert (found.samples, found.measured, found.measured_seconds) == (5, 5, 60)


def test_rates_are_of_what_was_measured_and_leave_gaps_out():
    lag = series(
        [0, 0, 5, 5],
        at=[0, 10, 1000, 1010],
        committed=[0, 100, 5000, 5010],
        maximum=[0, 100, 5005, 5015],
    )
    found = figures(lag)
    assert found.measured_seconds == 20
    assert found.in_rate == found.out_rate == pytest.approx(110 / 20)
    assert found.drain_rate == pytest.approx(1.0)


def test_offsets_that_went_back_are_no_messages():
    found = figures(series([5, 5, 5], committed=[100, 0, 15], maximum=[105, 5, 20]))
    assert found.out_rate == found.in_rate == pytest.approx(1.0)


def test_growth_is_in_messages_an_hour():
    assert figures(series([0, 15, 30, 45])).growth == pytest.approx(3600)
    assert figures(series([45, 30, 15, 0])).growth == pytest.approx(-3600)


def test_what_is_not_known_is_none_and_not_0():
    found = figures(series([None, None], head_age=[None, None]))
    assert (found.samples, found.measured) == (2, 0)
    told = (found.last, found.mean, found.p95, found.most, found.oldest, found.in_rate,
            found.out_rate, found.drain_rate, found.growth)  # fmt: skip
    assert set(told) == {None}


def test_a_single_sample_has_no_rates():
    found = figures(series([7], head_age=[None]))
    assert (found.last, found.most, found.in_rate, found.growth, found.oldest) == (7, 7) + (
        None,
    ) * 3


def test_samples_of_a_part_do_not_count_as_lags():
    found = figures(series([50, 3, 50], whole=[True, False, True]))
    assert (found.mean, found.measured) == (50, 2)


def test_a_queue_that_joins_a_group_brings_no_messages_with_it():
    found = figures(
        series(
            [0, 0, 5, 5],
            committed=[10, 25, 1_000_025, 1_000_040],
            maximum=[10, 25, 1_000_030, 1_000_045],
            counted=[1, 1, 2, 2],
        )
    )
    assert found.in_rate == found.out_rate == found.drain_rate == pytest.approx(1.0)


def test_ages_that_are_known_of_all_are_counted():
    assert figures(series([1, 1, 1], head_age=[0, 4, None], aged=[True, False, True])).aged == 1
