"""The picture of a key's order, which only the audit draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.foreign_text import escaped
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.drawing import (
    COLORS,
    INK,
    LINE,
    SERIES,
    drawn,
    plain_axes,
)
from orderly.monitoring.reporting.words import shortened

_MARKERS = "osD^v"


@dataclass(frozen=True, slots=True)
class Dot:
    """A message of a key.

    Attributes:
        x: its place: offset, or number in what was read.
        y: its sequence number.
        series: what it belongs to, as in "queue 3".
        wrong: whether it breaks the order.
    """

    x: float
    y: float
    series: str
    wrong: bool = False


def order_picture(name: str, dots: Sequence[Dot], x_label: str, y_label: str) -> str:
    """Messages of one key by place and sequence: in order they rise from left to right.

    A line joins the dots of a series; what breaks the order is ringed in red.

    Args:
        name: its own on the page.
        dots: of at most five series, each from left to right.
        x_label: what the places are.
        y_label: what the numbers are.
    """
    series: dict[str, list[Dot]] = {}
    for dot in dots:
        series.setdefault(dot.series, []).append(dot)

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=64, right=112 if series else 8, top=10, bottom=38)
        for place, (label, shown) in enumerate(series.items()):
            axes.plot(
                [dot.x for dot in shown], [dot.y for dot in shown],
                color=SERIES[place % len(SERIES)], linewidth=1,
                marker=_MARKERS[place % len(_MARKERS)], markersize=4.5,
                label=shortened(escaped(label), 16),
            )  # fmt: skip
        wrong = [dot for dot in dots if dot.wrong]
        if wrong:
            axes.plot(
                [dot.x for dot in wrong], [dot.y for dot in wrong], linestyle="", marker="o",
                markersize=11, markerfacecolor="none", markeredgewidth=2,
                markeredgecolor=COLORS[Verdict.CRITICAL], label="wrong: see below",
            )  # fmt: skip
        _axes_of_numbers(axes, x_label, y_label)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, labelcolor=INK,
            handlelength=1.4, borderaxespad=0.2,
        )  # fmt: skip

    return drawn(name, 240, draw)


def _axes_of_numbers(axes: Axes, x_label: str, y_label: str) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(0.04, 0.08)
    axes.set_xlabel(shortened(escaped(x_label), 60), labelpad=2)
    axes.set_ylabel(shortened(escaped(y_label), 30), labelpad=4)
