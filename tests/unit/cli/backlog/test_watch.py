"""`orderly backlog watch` at a terminal: drawn anew, within its size; else `golden/backlog.txt`."""

from __future__ import annotations

import io
import sys

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.backlog.listing import Level, ListingOptions, lines_of
from orderly.cli.backlog.watch import Trends, arrow, cut_to, sparkline
from orderly.cli.root import run
from orderly.errors import RequestTimeout
from tests.support.snapshots import AT, row, scan, snapshot
from tests.unit.cli.golden.backlog import watched, world


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
    trends, there = Trends(), lines_of(snapshot(row(backlog=5)), ListingOptions(Level.TOPIC))
    more = lines_of(snapshot(row(backlog=6)), ListingOptions(Level.TOPIC))
    trends.take(there)
    trends.take(more)
    assert trends.text(more[0], drawn=False) == "up"
    trends.take([])
    trends.take(more)
    assert trends.text(more[0], drawn=False) == ""


WATCH = ["backlog", "watch", "--interval", "100ms"]


class Terminal(io.StringIO):
    """What is written to it is drawn."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Watches at a terminal of 100 columns, and returns what was written."""

    def at(looks, *args, term="xterm"):
        for name, value in (("COLUMNS", "100"), ("LINES", "8"), ("TERM", term)):
            monkeypatch.setenv(name, value)
        with world(looks=looks), monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", Terminal())
            assert run([*WATCH, *args]) == 0
            return sys.stdout.getvalue()

    return at


def test_a_terminal_is_drawn_anew_within_its_size(terminal):
    queues = {"orders": [(0, 100)] * 50}
    committed = [{"shipping": {"orders": range(100, 100 - 50 * k, -k)}} for k in (1, 2)]
    looks = [scan(AT + k, queues, each) for k, each in enumerate(committed)]
    out = terminal(looks, "--by", "queue")
    assert out.startswith("\x1b[?25l")
    assert out.endswith("\x1b[?25h"), "the cursor is back"
    frames = out.split("\x1b[H")[1:]
    for frame in frames[-2:]:
        lines = click.unstyle(frame).splitlines()
        assert len([line for line in lines if line]) <= 8
        assert max(map(len, lines)) <= 100
    assert "more; --top" in frames[-1]


def test_a_terminal_shows_trends_and_keeps_the_last_numbers_when_a_round_fails(terminal):
    out = terminal(watched(5, 9, RequestTimeout("no reply")))
    assert "▲" in out
    last = out.split("\x1b[H")[-1]
    assert "error: no reply" in last
    assert "shipping" in last


def test_a_dumb_terminal_gets_lines(terminal):
    out = terminal(watched(5), term="dumb")
    assert "shipping" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("width", "shown"), [(10, "0123456789"), (5, "0123…")])
def test_a_line_is_cut_to_the_terminal(width, shown):
    assert cut_to("0123456789", width) == shown
    for colored in (
        click.style("0123456789", fg="red"),
        "01" + click.style("2345", fg="red") + "6789",
        click.style("01", dim=True) + "23456" + click.style("789", bold=True),
    ):
        found = cut_to(colored, width)
        assert click.unstyle(found) == shown
        assert "\x1b" in found, "still coloured"
