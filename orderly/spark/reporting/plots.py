"""Plots that only jobs draw: a map of heat, and a picture of a key's order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.foreign_text import escaped
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.charts import short
from orderly.monitoring.reporting.drawing import (
    COLORS,
    FAINT,
    HEAT,
    INK,
    LINE,
    SERIES,
    WIDTH,
    drawn,
    plain_axes,
)
from orderly.monitoring.reporting.words import shortened

_CELL = 22  # pixels: height of a cell of a map
_LEFT, _LEGEND = 92, 34
_LABEL_ROOM = 30  # pixels between two labels below a map
_MARKERS = "osD^v"


def heat_map(
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float | None]],
    unit: str,
) -> str:
    """Cells coloured by value, from the least to the greatest one; None is an empty cell.

    Args:
        name: its own on the page.
        rows: their labels, top to bottom.
        columns: their labels, left to right.
        values: for each row one of each column, none below 0.
        unit: of the values, for the legend.
    """
    most = max((value for row in values for value in row if value is not None), default=0) or 1

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=_LEFT, right=8, top=4, bottom=24 + _LEGEND)
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                if value is not None:
                    axes.add_patch(_cell(x, y, shade(value, most)))
        axes.set_xlim(0, len(columns))
        axes.set_ylim(len(rows), 0)
        axes.set_yticks([y + 0.5 for y in range(len(rows))], _short(rows, 14), color=INK)
        step = -(-len(columns) * _LABEL_ROOM // (WIDTH - _LEFT)) or 1
        places = range(0, len(columns), step)
        axes.set_xticks([x + 0.5 for x in places], _short([columns[x] for x in places], 12))
        _legend(figure, most, unit)

    return drawn(name, _CELL * len(rows) + 28 + _LEGEND, draw)


def _short(labels: Sequence[str], letters: int) -> list[str]:
    return [shortened(escaped(label), letters) for label in labels]


def _cell(x: float, y: float, color: str) -> Rectangle:
    return Rectangle((x + 0.04, y + 0.06), 0.92, 0.88, facecolor=color, linewidth=0)


def shade(value: float, most: float) -> str:
    """The colour of a value; only 0 has the first one."""
    if value <= 0:
        return HEAT[0]
    steps = len(HEAT) - 1
    return HEAT[min(steps, 1 + int(steps * value / most))]


def _legend(figure: Figure, most: float, unit: str) -> None:
    """The shades below the map, from 0 to the greatest value."""
    height = figure.get_size_inches()[1] * figure.dpi
    axes = figure.add_axes((_LEFT / WIDTH, 6 / height, 0.4, 12 / height))
    axes.set_axis_off()
    for place, color in enumerate(HEAT):
        axes.add_patch(Rectangle((place, 0), 0.94, 1, facecolor=color, linewidth=0))
    axes.set_xlim(0, len(HEAT))
    axes.set_ylim(0, 1)
    axes.text(-0.15, 0.5, "0", ha="right", va="center_baseline", color=FAINT)
    text = f"{short(round(most, 3))} {shortened(escaped(unit), 40)}"
    axes.text(len(HEAT) + 0.15, 0.5, text, va="center_baseline", color=FAINT)


# --- order ---------------------------------------------------------------------------------------


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
