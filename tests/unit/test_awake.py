"""Awake time: what passes while the process stands still counts against nobody."""

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.awake import LATE, TICK, AwakeTime

CATCHING_UP = 1.0
ON_TIME = st.floats(0.01, TICK + LATE - 0.01)
TOO_LATE = st.floats(TICK + LATE + 0.01, 100.0)


def looked_at(*gaps, since=0.0):
    """Awake time after looks with these seconds between them, and when the last one was."""
    time, moment = AwakeTime(since), since
    for gap in gaps:
        moment += gap
        time = time.looked(moment)
    return time, moment


@given(st.lists(ON_TIME))
def test_while_the_process_runs_all_time_counts(gaps):
    time, moment = looked_at(*gaps)
    assert time.at(moment) == pytest.approx(sum(gaps))


@given(st.lists(ON_TIME), TOO_LATE)
def test_of_a_standstill_a_tick_counts_and_then_what_waits_is_read_first(before, stood):
    time, moment = looked_at(*before)
    moment += stood
    time = time.looked(moment)
    assert time.at(moment) == pytest.approx(sum(before) + TICK - CATCHING_UP)
    time = time.looked(moment + TICK)
    assert time.at(moment + TICK) == pytest.approx(sum(before) + 2 * TICK - CATCHING_UP)


@given(st.lists(ON_TIME, min_size=1), TOO_LATE, st.data())
def test_moments_before_it_keep_their_time(before, stood, data):
    time, moment = looked_at(*before)
    known = data.draw(st.sampled_from(list(accumulate(before))))
    time = time.looked(moment + stood)
    assert time.at(known) == pytest.approx(known)


@given(st.lists(TOO_LATE, min_size=10, max_size=200))
def test_where_every_look_is_late_time_goes_on(gaps):
    time, moment = looked_at(*gaps)
    assert time.at(moment) >= len(gaps) * TICK / 2 - CATCHING_UP - TICK


@given(st.lists(st.one_of(ON_TIME, TOO_LATE)))
def test_no_more_time_is_awake_than_passes(gaps):
    time, moment = looked_at(*gaps)
    assert time.at(moment) <= sum(gaps) + 1e-6


def test_a_look_at_an_earlier_moment_changes_nothing():
    time, moment = looked_at(TICK, TICK)
    time = time.looked(moment - TICK)
    time = time.looked(moment + TICK)
    assert time.at(moment + TICK) == moment + TICK


def test_so_many_standstills_are_remembered_and_no_more():
    time, moment = looked_at(*[2.0, 10.0] * 300)
    assert len(time.standstills) == 1 + 256
    assert time.at(moment) > 0
