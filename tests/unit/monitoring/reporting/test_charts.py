"""Charts of any report: bars, columns, lines."""

import math
import re

import pytest

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting import words
from orderly.monitoring.reporting.charts import Bar, Stick, bars, columns, lines, short
from tests.support.reporting import Document

EVIL = "</text><script>\u202e\x1b[31m\ud800"
AT = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    "svg",
    [
        bars("b", [Bar(EVIL, 1, EVIL)]),
        columns("c", [Stick(EVIL, 1)], EVIL),
        lines("l", {EVIL: [(AT, 1), (AT + 9, 2)]}),
    ],
)
def test_texts_from_elsewhere_are_drawn_as_what_they_are(svg):
    assert "<script>" not in svg
    assert "&lt;" in svg
    assert not re.search("[\u202e\x1b\ud800]", svg)


def test_a_bar_without_a_verdict_has_no_verdicts_colour():
    svg = bars("b", [Bar("a", 1, "1"), Bar("b", 1, "1", Verdict.CRITICAL), Bar("c", math.inf, "∞")])
    assert svg.count("fill: var(--fill-critical)") == 1
    assert "fill: var(--series-1)" in svg


@pytest.mark.parametrize(("label", "most"), [("7", 16), ("2026-11-21", 8)])
def test_labels_below_columns_do_not_touch(label, most):
    svg = columns("c", [Stick(label, n) for n in range(40)], "days")
    assert most / 2 < Document(svg).text.count(label) <= most


def test_the_mean_is_drawn_only_if_wanted():
    sticks = [Stick("a", 1), Stick("b", 3)]
    dashed = "stroke-dasharray"
    assert dashed in columns("c", sticks, "x")
    assert dashed not in columns("c", sticks, "x", mean=False)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ((0, 60), ["08:00:00Z", "08:01:00Z"]),
        ((0, 86_400 * 40), ["01-15 08:00Z", "02-24 08:00Z"]),
    ],
)
def test_times_below_an_axis_can_be_told_apart(seconds, said):
    assert words.axis_times([AT + more for more in seconds]) == said


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0.0 %"), (0.0001, "<0.1 %"), (0.0123, "1.2 %"), (0.0994, "9.9 %"), (0.25, "25 %")],
)
def test_a_small_share_is_not_0(value, text):
    assert words.share(value) == text


@pytest.mark.parametrize(("value", "text"), [(950, "950"), (12_500, "12.5k"), (3e9, "3G")])
def test_numbers_beside_an_axis_are_short(value, text):
    assert short(value) == text
