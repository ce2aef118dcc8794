"""Trends: a bar a round, and whether it is more or less than some rounds ago."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.backlog.lines import Cut, Level, lines_of
from orderly.cli.backlog.trends import Trends, arrow, sparkline
from tests.support.snapshots import row, snapshot


@pytest.mark.parametrize(
    ("points", "bars"),
    [([], ""), ([0, 0], "▁▁"), ([0, 1, 7], "▁▂█"), ([None, 10], " █"), ([1, 1000], "▂█")],
)
def test_bars(points, bars):
    assert sparkline(points) == bars


@given(st.lists(st.none() | st.integers(0, 10**12), max_size=30))
def test_a_bar_a_point_and_only_0_is_empty(points):
    bars = sparkline(points)
    assert len(bars) == len(points)
    assert all(
        (bar == "▁") == (point == 0)
        for bar, point in zip(bars, points, strict=True)
        if point is not None
    )


@pytest.mark.parametrize(
    ("points", "word"),
    [
        ([], ""),
        ([5], ""),
        ([None, 5], ""),
        ([5, 6], "up"),
        ([6, 5], "down"),
        ([5, 9, 5], "same"),
        ([0, 9, 9, 9, 9, 8], "down"),
        ([5, None, 6], "up"),
    ],
)
def test_arrows(points, word):
    assert arrow(points) == word


def test_a_line_that_was_away_begins_anew():
    trends, there = Trends(), lines_of(snapshot(row(backlog=5)), Cut(Level.TOPIC))
    more = lines_of(snapshot(row(backlog=6)), Cut(Level.TOPIC))
    trends.take(there)
    trends.take(more)
    assert trends.text(more[0], drawn=False) == "up"
    trends.take([])
    trends.take(more)
    assert trends.text(more[0], drawn=False) == ""
