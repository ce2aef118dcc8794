"""Charts of any report: bars, columns, lines over time. Each becomes an <svg> of the page.

Texts are drawn as they are given: what comes from elsewhere is escaped here, not by the caller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.foreign_text import escaped
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.drawing import (
    COLORS,
    FAINT,
    INK,
    LINE,
    SERIES,
    TEXT,
    WIDTH,
    drawn,
    plain_axes,
)
from orderly.monitoring.reporting.words import axis_times, shortened

_ROW, _LABEL, _AFTER = 24, 206, 130  # pixels: a bar's row, its label, the text behind it
_LETTERS = 34  # of a label
_LINE_LETTERS = 20  # of a line's name, which is bold
_LINES_HEIGHT = 184  # pixels, of the plot over time without its margins
_LETTER = 6.5  # pixels of one
_TICKS = 16  # labels below columns
_DASHES = ("-", (0, (6, 2)), (0, (2, 2)), (0, (8, 2, 2, 2)), (0, (1, 1)))

Series = Sequence[tuple[float, float | None]]
"""Times (seconds since the epoch, ascending) and values; None: not known, a gap."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: how long it is, and what stands before and behind it; inf has no end.

    Attributes:
        verdict: gives the colour; None: a bar that judges nothing.
    """

    label: str
    length: float
    text: str
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Stick:
    """A column: its height (None: not known) and what stands below it."""

    label: str
    height: float | None
    verdict: Verdict | None = None


def color(verdict: Verdict | None) -> str:
    """Of what is judged so; what is not judged has the first colour of series."""
    return SERIES[0] if verdict is None else COLORS[verdict]


def bars(name: str, shown: Sequence[Bar]) -> str:
    """Bars below each other, longest as wide as there is room.

    Args:
        name: its own on the page.
        shown: top to bottom.
    """

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=_LABEL, right=_AFTER, top=2, bottom=2)
        longest = max((bar.length for bar in shown if math.isfinite(bar.length)), default=0) or 1
        for place, bar in enumerate(shown):
            _bar(axes, place, bar, longest)
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_xlim(0, longest)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xticks([])
        labels = [shortened(escaped(bar.label), _LETTERS) for bar in shown]
        axes.set_yticks(range(len(shown)), labels, color=INK)

    return drawn(name, _ROW * len(shown) + 4, draw)


def _bar(axes: Axes, place: int, bar: Bar, longest: float) -> None:
    endless = math.isinf(bar.length)
    length = longest if endless else max(bar.length, longest / 200)
    hatch = "//" if endless else None
    axes.barh(place, length, height=0.62, color=color(bar.verdict), hatch=hatch, linewidth=0)
    axes.text(length + longest / 50, place, escaped(bar.text), va="center_baseline", color=INK)


# --- columns -------------------------------------------------------------------------------------


def columns(
    name: str, shown: Sequence[Stick], below: str, *, mean: bool = True, borders: Sequence[int] = ()
) -> str:
    """Columns side by side; unknown ones are question marks.

    Args:
        name: its own on the page.
        shown: left to right.
        below: what they are, under the axis.
        mean: whether a dashed line shows the mean of the known ones.
        borders: places before which a line stands.
    """
    known = [stick.height for stick in shown if stick.height is not None]

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=52, right=8, top=12, bottom=34)
        _sticks(axes, shown)
        if mean and known:
            average = sum(known) / len(known)
            axes.axhline(average, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.set_ylim(0, (max(known, default=0) or 1) * 1.08)
        axes.set_xlim(-0.6, len(shown) - 0.4)
        count_axis(axes)
        labels = [shortened(escaped(stick.label), 12) for stick in shown]
        places = range(0, len(shown), _step(labels))
        axes.set_xticks(places, [labels[place] for place in places])
        axes.set_xlabel(shortened(escaped(below), 80), labelpad=2)
        for place in borders:
            axes.axvline(place - 0.5, color=FAINT, linewidth=1)

    return drawn(name, 176, draw)


def _step(labels: Sequence[str]) -> int:
    """Each how many columns one finds room for its label: at most 16 in all."""
    letters = max(map(len, labels), default=0) + 2
    most = min(_TICKS, int((WIDTH - 60) / (letters * _LETTER)))
    return -(-len(labels) // most) or 1


def _sticks(axes: Axes, shown: Sequence[Stick]) -> None:
    for place, stick in enumerate(shown):
        if stick.height is None:
            axes.text(place, 0, "?", ha="center", va="bottom", color=INK)
        else:
            axes.bar(place, stick.height, width=0.72, color=color(stick.verdict), linewidth=0)


def count_axis(axes: Axes) -> None:
    """Few whole numbers at the left: 0, 500, 1k, 1.5k."""
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def short(value: float) -> str:
    """A number in few characters: 950, 12k, 1.5M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


# --- over time -----------------------------------------------------------------------------------


def lines(name: str, shown: Mapping[str, Series]) -> str:
    """Values over time; a gap where one was not known.

    Args:
        name: its own on the page.
        shown: at most five series by what they are called.
    """
    values = [value or 0 for series in shown.values() for _, value in series]
    top = max(values, default=0) or 1
    times = sorted({at for series in shown.values() for at, _ in series})

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=52, right=158, top=12, bottom=24)
        for place, series in enumerate(shown.values()):
            axes.plot(
                [at for at, _ in series],
                [math.nan if value is None else value for _, value in series],
                color=SERIES[place], linestyle=_DASHES[place], linewidth=2,
                marker="o", markersize=3.5,
            )  # fmt: skip
        axes.set_ylim(-0.03 * top, top * 1.08)
        count_axis(axes)
        ticks = [times[0], times[-1]] if len(times) < 5 else [times[0], _middle(times), times[-1]]
        axes.set_xticks(ticks, axis_times(ticks))
        axes.set_xlim(times[0], times[-1])
        _name_lines(axes, shown, top)

    return drawn(name, _LINES_HEIGHT + 36, draw)


def _middle(times: Sequence[float]) -> float:
    return times[len(times) // 2]


def _name_lines(axes: Axes, shown: Mapping[str, Series], top: float) -> None:
    """Each line's name at its end, moved apart from the others."""
    ends = sorted(
        (next((value for _, value in reversed(series) if value is not None), 0.0), place, name)
        for place, (name, series) in enumerate(shown.items())
    )
    heights = apart([end for end, _, _ in ends], top * TEXT * 1.3 / _LINES_HEIGHT, top)
    for height, (_, place, name) in zip(heights, ends, strict=True):
        axes.annotate(
            shortened(escaped(name), _LINE_LETTERS),
            (1.0, height), xycoords=("axes fraction", "data"),
            xytext=(8, 0), textcoords="offset points", annotation_clip=False,
            va="center", color=SERIES[place], weight="bold",
        )  # fmt: skip


def apart(wanted: Sequence[float], gap: float, top: float) -> list[float]:
    """Heights near those wanted (ascending), a gap apart, and none above the top."""
    heights = list[float]()
    for height in wanted:
        heights.append(max(height, heights[-1] + gap) if heights else height)
    for place in reversed(range(len(heights))):
        heights[place] = min(heights[place], top - gap * (len(heights) - 1 - place))
    return heights
