"""Plots of jobs: what is drawn, in the page's colours."""

from orderly.spark.reporting.plots import Dot, order_picture
from tests.support.reporting import Document


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
