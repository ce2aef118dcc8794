"""Plots: what is drawn, in the page's colours, whatever the user's matplotlib is set to."""

import math
import re
from itertools import pairwise

import matplotlib as mpl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.reporting import charts, plots
from tests.support.reporting import Document
from tests.support.snapshots import AT, topic_status

from tests.support.snapshots import row  # isort: skip


def topics(*etas):
    return [
        topic_status([row(group=f"g{n}", backlog=10, drain_eta=eta)]) for n, eta in enumerate(etas)
    ]


def queues(*backlogs):
    state = [QueueState.UNKNOWN if backlog is None else QueueState.STALL for backlog in backlogs]
    return topic_status(
        [
            row(s, queue_id=n, backlog=b)
            for n, (s, b) in enumerate(zip(state, backlogs, strict=True))
        ]
    )


def fills(svg, name):
    return len(re.findall(rf"fill: var\(--fill-{name}\)", svg))


def test_every_colour_follows_the_page():
    svg = plots.backlog_plot(topics(1.0, 2.0)) + plots.drain_plot(topics(1.0, math.inf))
    svg += plots.queues_plot("q", queues(1, 2, None)) + plots.lines_plot({"g": points(1, 2)})
    assert not re.search(r"#[0-9a-f]{6}\b", svg)
    assert "var(--ink)" in svg


def test_what_never_drains_is_hatched_and_says_so():
    assert "<pattern" not in plots.drain_plot(topics(1.0))
    svg = plots.drain_plot(topics(1.0, math.inf))
    assert "<pattern" in svg
    assert Document(svg).text.count("never") == 1


def test_each_queue_is_a_column_and_an_unknown_one_a_question_mark():
    svg = plots.queues_plot("q", queues(5, None, 7, 0))
    assert fills(svg, "critical") == 3
    assert Document(svg).text.count("?") == 1


def test_of_too_many_queues_the_largest_are_drawn():
    svg = plots.queues_plot("q", queues(*range(200)))
    assert fills(svg, "critical") == 64


def points(*backlogs):
    return [Point(AT + 10 * n, backlog) for n, backlog in enumerate(backlogs)]


def test_a_line_has_a_gap_where_nothing_is_known():
    whole, broken = (
        re.search(r'<path d="([^"]*)" clip-path[^>]*series-1', plots.lines_plot({"g": given}))[1]
        for given in (points(1, 2, 3), points(1, None, 3))
    )
    assert whole.count("M") == 1
    assert broken.count("M") == 2


def test_every_line_has_its_name_even_if_all_end_at_the_same_place():
    text = Document(plots.lines_plot({f"g{n}": points(1, 2) for n in range(5)})).text
    assert all(f"g{n}" in text for n in range(5))


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_names_are_apart_and_within_the_plot(ends):
    heights = charts.apart(sorted(ends), 10.0, 100.0)
    gaps = [above - below for below, above in pairwise(heights)]
    assert min(gaps, default=10.0) >= 10 - 1e-9
    assert max(heights) <= 100


def test_the_users_settings_change_nothing_and_are_left_alone():
    plain = plots.backlog_plot(topics(1.0))
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "axes.grid": True}):
        assert plots.backlog_plot(topics(1.0)) == plain
        assert mpl.rcParams["font.size"] == 30


@pytest.mark.parametrize("name", ["注文の出荷", "$x^2$", "a]]>b", "--><b>", "#0c0001"])
def test_a_name_is_drawn_as_it_is(name):
    svg = plots.backlog_plot([topic_status([row(group=name, backlog=3)])])
    assert f"{name} · orders" in Document(svg).text
