"""Whose turn it is: everybody's some time, the urgent ones' sooner, never more than may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.collecting.budgets import longest_waiting, within


def turn(asked_at, now=1000.0, **settings):
    return longest_waiting(asked_at, asked_at.__getitem__, now, every=30.0, **settings)


def test_who_waited_longest_comes_first_and_who_was_just_asked_not_at_all():
    assert turn({"a": 900.0, "b": 0.0, "c": 980.0, "d": 800.0}) == ["b", "d", "a"]


def test_a_scan_that_begins_a_little_early_counts():
    assert turn({"a": 972.0}) == ["a"]


def test_those_that_were_asked_for_come_before_all_others():
    assert turn({"a": 0.0, "b": 900.0}, first={"b"}) == ["b", "a"]


def test_what_is_urgent_waits_a_quarter_as_long_and_the_rest_not_for_ever():
    assert turn({"a": 900.0, "b": 960.0}, urgent={"b"}) == ["b", "a"]
    assert turn({"a": 800.0, "b": 960.0}, urgent={"b"}) == ["a", "b"]


def test_only_whole_groups_are_taken_and_the_first_whatever_its_size():
    assert list(within(3, [[], [1, 2], [3], [4]])) == [[1, 2], [3]]
    assert list(within(3, [[1] * 9, [2]])) == [[1] * 9]
    assert list(within(3, [[1, 2], [3, 4], [5]])) == [[1, 2]], "nobody overtakes for his size"
    assert list(within(0, [[1]])) == []


@given(st.integers(0, 20), st.lists(st.lists(st.integers(), max_size=8), max_size=8))
def test_never_more_than_the_budget_but_for_the_first(budget, wholes):
    taken = list(within(budget, wholes))
    assert sum(map(len, taken)) <= max(budget, *map(len, taken[:1] or [[]]))
    assert taken == [whole for whole in wholes if whole][: len(taken)]
