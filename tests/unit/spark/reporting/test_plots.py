"""Plots of jobs: what is drawn, in the page's colours."""

import re

import pytest

from orderly.monitoring.reporting.drawing import HEAT
from orderly.spark.reporting.plots import Dot, heat_map, order_picture, shade
from tests.support.reporting import Document


def heats(svg):
    return [int(found) for found in re.findall(r"fill: var\(--heat-(\d)\)", svg)]


def test_every_cell_has_the_shade_of_its_value_and_unknown_ones_none():
    svg = heat_map("m", ["Mon"], ["00", "01", "02", "03"], [[0, 10.0, 1.0, None]], "messages")
    legend = list(range(len(HEAT)))
    assert heats(svg) == [0, len(HEAT) - 1, 1, *legend]
    assert "10 messages" in Document(svg).text
    assert not re.search(r"#[0-9a-f]{6}\b", svg)


def test_a_map_of_nothing_is_a_map_of_zeros():
    assert set(heats(heat_map("m", ["a"], ["b"], [[0]], "x"))) == set(range(len(HEAT)))


@pytest.mark.parametrize(("value", "place"), [(0, 0), (0.001, 1), (50, 4), (99.9, 6), (100, 6)])
def test_only_nothing_has_the_shade_of_nothing(value, place):
    assert shade(value, 100) == HEAT[place]


def test_labels_below_a_wide_map_have_room():
    columns = [f"{day:02}" for day in range(90)]
    svg = heat_map("m", ["r"], columns, [list(range(90))], "x")
    assert 5 < sum(f">{label}<" in svg for label in columns) < 20


def test_what_breaks_the_order_is_ringed():
    dots = [Dot(n, n, "queue 1") for n in range(5)]
    assert "wrong: see below" not in order_picture("o", dots, "offset", "sequence")
    svg = order_picture("o", [*dots, Dot(5, 1, "queue 1", wrong=True)], "offset", "sequence")
    assert "wrong: see below" in Document(svg).text
    assert "stroke: var(--fill-critical)" in svg


def test_each_series_has_its_name():
    dots = [Dot(n, n, f"queue {n % 3}") for n in range(9)]
    text = Document(order_picture("o", dots, "offset", "sequence")).text
    assert all(f"queue {n}" in text for n in range(3))
