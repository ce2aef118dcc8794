"""Charts of any report: what is drawn, in the page's colours, whatever matplotlib is set to."""

import math
import re
from itertools import pairwise

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.states import Verdict
from orderly.report import words
from orderly.report.charts import Bar, Dot, Stick, apart, bars, columns, lines, order_picture, short
from tests.support.programs import Document

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


def dots(count, series="queue 1"):
    return [Dot(n, n, series) for n in range(count)]


def over_time(*values):
    return [(AT + 10 * n, value) for n, value in enumerate(values)]


def test_every_colour_follows_the_page():
    svg = bars("b", [Bar("a", 1, "1", Verdict.OK), Bar("b", math.inf, "never", Verdict.WARNING)])
    svg += columns("c", [Stick("0", 1), Stick("1", None)], "queue") + lines(
        "l", {"g": over_time(1, 2)}
    )
    svg += order_picture("o", dots(3), "offset", "sequence")
    assert not re.search(r"#[0-9a-f]{6}\b", svg)
    assert "var(--ink)" in svg


def test_what_has_no_end_is_hatched():
    assert "<pattern" not in bars("b", [Bar("a", 1.0, "1s")])
    assert "<pattern" in bars("b", [Bar("a", 1.0, "1s"), Bar("b", math.inf, "never")])


def test_an_unknown_column_is_a_question_mark():
    svg = columns("c", [Stick("0", h, Verdict.CRITICAL) for h in (5, None, 7, 0)], "queue")
    assert len(re.findall(r"fill: var\(--fill-critical\)", svg)) == 3
    assert Document(svg).text.count("?") == 1


def test_a_line_has_a_gap_where_nothing_is_known():
    whole, broken = (
        re.search(r'<path d="([^"]*)" clip-path[^>]*series-1', lines("l", {"g": values}))[1]
        for values in (over_time(1, 2, 3), over_time(1, None, 3))
    )
    assert whole.count("M") == 1
    assert broken.count("M") == 2


def test_every_line_has_its_name_even_if_all_end_at_the_same_place():
    text = Document(lines("l", {f"g{n}": over_time(1, 2) for n in range(5)})).text
    assert all(f"g{n}" in text for n in range(5))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_names_are_apart_and_within_the_plot(ends):
    heights = apart(sorted(ends), 10.0, 100.0)
    gaps = [above - below for below, above in pairwise(heights)]
    assert min(gaps, default=10.0) >= 10 - 1e-9
    assert max(heights) <= 100


def test_the_users_settings_change_nothing_and_are_left_alone():
    plain = bars("b", [Bar("a", 1, "1")])
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": True}):
        assert bars("b", [Bar("a", 1, "1")]) == plain
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize("name", ["注文の出荷", "$x^2$", "a]]>b", "--><b>", "#0c0001"])
def test_a_name_is_drawn_as_it_is(name):
    assert name in Document(bars("b", [Bar(name, 3, "3")])).text


def test_what_breaks_the_order_is_ringed():
    assert "wrong: see below" not in order_picture("o", dots(5), "offset", "sequence")
    svg = order_picture("o", [*dots(5), Dot(5, 1, "queue 1", wrong=True)], "offset", "sequence")
    assert "wrong: see below" in Document(svg).text
    assert "stroke: var(--fill-critical)" in svg


def test_each_series_of_a_keys_order_has_its_name():
    shown = [dot for n in range(3) for dot in dots(3, f"queue {n}")]
    text = Document(order_picture("o", shown, "offset", "sequence")).text
    assert all(f"queue {n}" in text for n in range(3))
