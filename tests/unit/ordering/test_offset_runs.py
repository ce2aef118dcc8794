"""Runs are sets: every operation is the one of `set`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.offset_runs import above, contains, difference, finished_runs, union

END = 40
SETS = st.sets(st.integers(0, END - 1))


def runs_of(offsets):
    """The one way to write a set as runs."""
    return finished_runs(sorted(set(range(END)) - offsets), 0, END)


def members(runs):
    return {offset for start, end in runs for offset in range(start, end)}


@given(SETS)
def test_runs_are_sorted_and_neither_empty_nor_touching(offsets):
    runs = runs_of(offsets)
    assert members(runs) == offsets
    edges = [edge for run in runs for edge in run]
    assert edges == sorted(set(edges))


@given(SETS, st.integers(0, END), st.integers(0, END))
def test_finished_is_what_is_not_unfinished(unfinished, low, end):
    expected = set(range(low, end)) - unfinished
    assert finished_runs(sorted(unfinished), low, end) == runs_of(expected)


@given(SETS, st.integers(-1, END))
def test_contains(offsets, offset):
    assert contains(runs_of(offsets), offset) == (offset in offsets)


@given(SETS, st.integers(0, END))
def test_above(offsets, low):
    assert above(runs_of(offsets), low) == runs_of({o for o in offsets if o >= low})


@given(SETS, SETS)
def test_union(first, second):
    assert union(runs_of(first), runs_of(second)) == runs_of(first | second)


@given(SETS, SETS)
def test_difference(first, second):
    assert difference(runs_of(first), runs_of(second)) == runs_of(first - second)
