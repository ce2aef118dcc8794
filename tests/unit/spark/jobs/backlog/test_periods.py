from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.jobs.backlog.periods import Ended, Gap, Stuck, gaps, incidents, standstills
from orderly.spark.jobs.backlog.series import MISSED, runs
from tests.support.backlog_series import EVERY, series


def spans(found):
    return [(each.begin, each.end, str(each.ended)) for each in found]


# --- breaches ------------------------------------------------------------------------------------


def test_a_breach_lasts_until_the_first_sample_that_is_in_order():
    [found] = incidents(series([0, 11, 30, 12, 10, 0]), "backlog", 10, join=0)
    assert (found.begin, found.end, found.ended) == (15, 60, Ended.OVER)
    assert (found.worst, found.worst_at, found.samples) == (30, 30, 3)


def test_the_limit_itself_is_kept():
    assert not incidents(series([10, 10]), "backlog", 10, join=0)


def test_a_breach_at_the_end_goes_on():
    assert spans(incidents(series([0, 11, 11]), "backlog", 10, 0)) == [(15, 30, "goes on")]


def test_what_is_no_longer_measured_does_not_go_on():
    dark = [0, 11, *[None] * 4]
    assert spans(incidents(series(dark), "backlog", 10, 0)) == [(15, 15, "not measured")]
    assert spans(incidents(series(dark[:-1]), "backlog", 10, 0)) == [(15, 15, "goes on")]
    [stuck] = standstills(series([5, 5, *[None] * 4], committed=[3] * 6), 15)
    assert (stuck.end, stuck.ended) == (15, Ended.NOT_MEASURED)


def test_breaches_a_moment_apart_are_one_incident():
    flapping = series([11, 0, 20, 0, 0, 0, 11, 0])
    assert spans(incidents(flapping, "backlog", 10, join=15)) == [
        (0, 45, "over"),
        (90, 105, "over"),
    ]
    [first, _] = incidents(flapping, "backlog", 10, join=15)
    assert (first.worst, first.worst_at, first.samples) == (20, 30, 2)


def test_what_was_not_measured_ends_a_breach_without_saying_that_it_is_over():
    gap = [0, 15, 30, 300, 315]
    found = incidents(series([0, 20, 20, 20, 0], at=gap), "backlog", 10, join=60)
    assert spans(found) == [(15, 30, "not measured"), (300, 315, "over")]


def test_one_scan_that_failed_does_not_end_a_breach():
    [found] = incidents(series([0, 20, None, 20, 0]), "backlog", 10, join=0)
    assert (found.begin, found.end, found.samples) == (15, 60, 2)


def test_a_part_that_breaks_the_promise_breaks_it_and_one_that_keeps_it_says_nothing():
    part = series([0, 20, 5, 20, 0], whole=[True, False, False, False, True])
    [found] = incidents(part, "backlog", 10, join=0)
    assert (found.begin, found.end, found.samples) == (15, 60, 2)


def test_ages_are_promises_too():
    [found] = incidents(series([1, 1, 1], head_age=[0, 400, None]), "head_age", 300, join=0)
    assert (found.measure, found.worst, found.ended) == ("head_age", 400, Ended.GOES_ON)


def test_an_age_that_is_not_known_of_all_does_not_end_a_breach():
    ages = {"head_age": [0, 400, 10, 400, 0], "aged": [True, True, False, True, True]}
    [found] = incidents(series([9] * 5, **ages), "head_age", 300, join=0)
    assert (found.begin, found.end, found.samples) == (15, 60, 2)


def test_nothing_known_is_no_breach():
    assert not incidents(series([None, None]), "backlog", 0, join=0)
    assert not incidents(series([]), "backlog", 0, join=0)


@given(
    st.lists(st.tuples(st.sampled_from([1, 15, 45, 46, 600]), st.sampled_from([None, 0, 11, 99]))),
    st.sampled_from([0, 50]),
)
def test_incidents_hold_all_broken_samples_and_no_two_touch(steps, join):
    at = np.cumsum([step for step, _ in steps], dtype=float)
    values = [value for _, value in steps]
    found = incidents(series(values, at=at), "backlog", 10, join)
    broken = [t for t, value in zip(at, values, strict=True) if value is not None and value > 10]
    assert sum(each.samples for each in found) == len(broken)
    assert all(any(each.begin <= t <= each.end for each in found) for t in broken)
    for one, other in pairwise(found):
        assert other.begin > one.end + join
    if join == 0:
        good = [t for t, value in zip(at, values, strict=True) if value == 0]
        assert not any(each.begin <= t < each.end for each in found for t in good)


# --- standstills ---------------------------------------------------------------------------------


def test_a_backlog_without_a_commit_is_stuck_until_something_is_committed():
    found = standstills(
        series([5, 7, 8, 9, 1], committed=[3, 3, 3, 3, 12], maximum=[8, 10, 11, 12, 13]), 60
    )
    assert found == [Stuck(0, 60, Ended.OVER, backlog=5, came=4)]


def test_a_short_standstill_is_none():
    assert not standstills(series([5, 5, 5, 5], committed=[3, 3, 3, 4]), 60)


def test_who_has_nothing_to_do_is_not_stuck():
    assert not standstills(series([0] * 20, committed=[3] * 20), 60)


def test_a_gap_ends_what_is_known_of_a_standstill():
    at = [0, 15, 30, 45, 60, 1000, 1015]
    [found] = standstills(series([5] * 7, at=at, committed=[3] * 7), 60)
    assert (found.begin, found.end, found.ended) == (0, 60, Ended.NOT_MEASURED)


def test_without_offsets_nobody_is_stuck():
    assert not standstills(series([5] * 20, committed=[None] * 20), 60)


# --- gaps ----------------------------------------------------------------------------------------


def test_gaps_are_what_lies_between_samples_too_far_apart():
    assert gaps(series([1, 1, 1, 1], at=[0, 15, 61, 76])) == [Gap(15, 61)]
    assert gaps(series([1, 1, 1, 1], at=[0, 15, 60, 75])) == []


def test_samples_without_a_value_are_gaps_also_at_the_ends():
    unknown = [None] * 4 + [1] + [None] * 4 + [1, None, 1] + [None] * 4
    assert gaps(series(unknown)) == [Gap(0, 60), Gap(60, 135), Gap(165, 225)]
    assert gaps(series([None, 1, None])) == []
    assert gaps(series([None, None])) == [Gap(0, 15)]
    assert gaps(series([])) == []


def test_a_group_known_in_part_is_a_gap():
    part = series([1] * 6, whole=[True, False, False, False, False, True])
    assert gaps(part) == [Gap(0, 75)]


# --- runs ----------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_runs_are_what_a_plain_loop_finds(pairs):
    chosen = np.array([pair[0] for pair in pairs], dtype=bool)
    joined = np.array([pair[1] for pair in pairs[:-1]], dtype=bool)
    expected, begun = [], None
    for place, wanted in enumerate(chosen):
        if wanted and begun is None:
            begun = place
        last = place + 1 == len(chosen)
        if wanted and (last or not chosen[place + 1] or not joined[place]):
            expected.append((begun, place))
            begun = None
    assert runs(chosen, joined) == expected


def test_the_longer_interval_of_two_samples_says_what_a_gap_is():
    found = series([1, 1], at=[0, MISSED * EVERY])
    assert found.joined().all()
    assert not series([1, 1], at=[0, MISSED * EVERY + 1]).joined().any()
