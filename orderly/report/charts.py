"""Charts of any report: bars, columns, lines over time, a key's order. Each becomes an <svg>.

matplotlib, tamed: no pyplot, no window, no setting of the user's; equal figures give equal text.
Colours are stood in for by codes that become CSS variables, so that one plot serves light, dark
and paper. Texts are drawn as they are given: what comes from elsewhere is escaped here, not by the
caller.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.foreign_text import escaped
from orderly.monitoring.backlog.states import Verdict
from orderly.report.words import axis_times, shortened

_WIDTH = 540  # of a plot, in the units of its text: CSS pixels, if the page does not scale it
_TEXT = 11.0
_DPI = 72

_INK, _FAINT, _LINE, _PAPER = "#0c0001", "#0c0002", "#0c0003", "#0c0004"
_COLORS = {
    Verdict.OK: "#0c0005",
    Verdict.WARNING: "#0c0006",
    Verdict.CRITICAL: "#0c0007",
    Verdict.UNKNOWN: "#0c0008",
}
SERIES = ("#0c0011", "#0c0012", "#0c0013", "#0c0014", "#0c0015")
_VARIABLES = {
    _INK: "ink", _FAINT: "faint", _LINE: "line", _PAPER: "card",
    **{code: f"fill-{verdict.name.lower()}" for verdict, code in _COLORS.items()},
    **{code: f"series-{number}" for number, code in enumerate(SERIES, 1)},
}  # fmt: skip
_CODE = re.compile("|".join(_VARIABLES))
_NAME = re.compile(r'(\bid="|href="#|url\(#)')

_SETTINGS = {
    name: value
    for name, value in mpl.rcParamsDefault.items()
    if not name.startswith(("backend", "webagg"))
} | {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "orderly",  # else ids are random
    "text.parse_math": False,  # names are no formulas
    "font.size": _TEXT,
    "text.color": _INK,
    "axes.edgecolor": _LINE,
    "axes.labelcolor": _FAINT,
    "xtick.color": _FAINT,
    "ytick.color": _FAINT,
    "hatch.color": _PAPER,
    "hatch.linewidth": 2.0,
}

_ROW, _LABEL, _AFTER = 24, 206, 130  # pixels: a bar's row, its label, the text behind it
_LETTERS = 34  # of a label
_LINE_LETTERS = 20  # of a line's name, which is bold
_LINES_HEIGHT = 184  # pixels, of the plot over time without its margins
_LETTER = 6.5  # pixels of one
_TICKS = 16  # labels below columns
_DASHES = ("-", (0, (6, 2)), (0, (2, 2)), (0, (8, 2, 2, 2)), (0, (1, 1)))
_MARKERS = "osD^v"  # of the series in a picture of order

Series = Sequence[tuple[float, float | None]]
"""Times (seconds since the epoch, ascending) and values; None: not known, a gap."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its length, and the texts before and behind it; inf has no end.

    Attributes:
        verdict: gives the colour; None: a bar that judges nothing.
    """

    label: str
    length: float
    text: str
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Stick:
    """A column: its height (None: not known) and the text below it."""

    label: str
    height: float | None
    verdict: Verdict | None = None


def _color(verdict: Verdict | None) -> str:
    """Of what is judged so; what is not judged has the first colour of series."""
    return SERIES[0] if verdict is None else _COLORS[verdict]


def bars(name: str, shown: Sequence[Bar]) -> str:
    """Bars below each other, longest as wide as there is room.

    Args:
        name: its own on the page.
        shown: top to bottom.
    """

    def draw(figure: Figure) -> None:
        axes = _plain_axes(figure, left=_LABEL, right=_AFTER, top=2, bottom=2)
        longest = max((bar.length for bar in shown if math.isfinite(bar.length)), default=0) or 1
        for place, bar in enumerate(shown):
            _bar(axes, place, bar, longest)
        axes.axvline(0, color=_FAINT, linewidth=1)
        axes.set_xlim(0, longest)
        axes.set_ylim(len(shown) - 0.5, -0.5)
        axes.set_xticks([])
        labels = [shortened(escaped(bar.label), _LETTERS) for bar in shown]
        axes.set_yticks(range(len(shown)), labels, color=_INK)

    return _drawn(name, _ROW * len(shown) + 4, draw)


def _bar(axes: Axes, place: int, bar: Bar, longest: float) -> None:
    endless = math.isinf(bar.length)
    length = longest if endless else max(bar.length, longest / 200)
    hatch = "//" if endless else None
    axes.barh(place, length, height=0.62, color=_color(bar.verdict), hatch=hatch, linewidth=0)
    axes.text(length + longest / 50, place, escaped(bar.text), va="center_baseline", color=_INK)


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
        borders: places before which a line is drawn.
    """
    known = [stick.height for stick in shown if stick.height is not None]

    def draw(figure: Figure) -> None:
        axes = _plain_axes(figure, left=52, right=8, top=12, bottom=34)
        _sticks(axes, shown)
        if mean and known:
            average = sum(known) / len(known)
            axes.axhline(average, color=_INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.set_ylim(0, (max(known, default=0) or 1) * 1.08)
        axes.set_xlim(-0.6, len(shown) - 0.4)
        _count_axis(axes)
        labels = [shortened(escaped(stick.label), 12) for stick in shown]
        places = range(0, len(shown), _step(labels))
        axes.set_xticks(places, [labels[place] for place in places])
        axes.set_xlabel(shortened(escaped(below), 80), labelpad=2)
        for place in borders:
            axes.axvline(place - 0.5, color=_FAINT, linewidth=1)

    return _drawn(name, 176, draw)


def _step(labels: Sequence[str]) -> int:
    """Each how many columns one finds room for its label: at most 16 in all."""
    letters = max(map(len, labels), default=0) + 2
    most = min(_TICKS, int((_WIDTH - 60) / (letters * _LETTER)))
    return -(-len(labels) // most) or 1


def _sticks(axes: Axes, shown: Sequence[Stick]) -> None:
    for place, stick in enumerate(shown):
        if stick.height is None:
            axes.text(place, 0, "?", ha="center", va="bottom", color=_INK)
        else:
            axes.bar(place, stick.height, width=0.72, color=_color(stick.verdict), linewidth=0)


def _count_axis(axes: Axes) -> None:
    """Few whole numbers at the left: 0, 500, 1k, 1.5k."""
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.grid(axis="y", color=_LINE, linewidth=0.8)
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
        axes = _plain_axes(figure, left=52, right=158, top=12, bottom=24)
        for place, series in enumerate(shown.values()):
            axes.plot(
                [at for at, _ in series],
                [math.nan if value is None else value for _, value in series],
                color=SERIES[place], linestyle=_DASHES[place], linewidth=2,
                marker="o", markersize=3.5,
            )  # fmt: skip
        axes.set_ylim(-0.03 * top, top * 1.08)
        _count_axis(axes)
        ticks = [times[0], times[-1]] if len(times) < 5 else [times[0], _middle(times), times[-1]]
        axes.set_xticks(ticks, axis_times(ticks))
        axes.set_xlim(times[0], times[-1])
        _name_lines(axes, shown, top)

    return _drawn(name, _LINES_HEIGHT + 36, draw)


def _middle(times: Sequence[float]) -> float:
    return times[len(times) // 2]


def _name_lines(axes: Axes, shown: Mapping[str, Series], top: float) -> None:
    """Each line's name at its end, moved apart from the others."""
    ends = sorted(
        (next((value for _, value in reversed(series) if value is not None), 0.0), place, name)
        for place, (name, series) in enumerate(shown.items())
    )
    heights = apart([end for end, _, _ in ends], top * _TEXT * 1.3 / _LINES_HEIGHT, top)
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


# --- a key's order --------------------------------------------------------------------------------


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
        axes = _plain_axes(figure, left=64, right=112 if series else 8, top=10, bottom=38)
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
                markeredgecolor=_COLORS[Verdict.CRITICAL], label="wrong: see below",
            )  # fmt: skip
        _axes_of_numbers(axes, x_label, y_label)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, labelcolor=_INK,
            handlelength=1.4, borderaxespad=0.2,
        )  # fmt: skip

    return _drawn(name, 240, draw)


def _axes_of_numbers(axes: Axes, x_label: str, y_label: str) -> None:
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, integer=True))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.margins(0.04, 0.08)
    axes.set_xlabel(shortened(escaped(x_label), 60), labelpad=2)
    axes.set_ylabel(shortened(escaped(y_label), 30), labelpad=4)


# --- a figure as part of a page -------------------------------------------------------------------


def _drawn(name: str, height: int, draw: Callable[[Figure], None]) -> str:
    """Draw one plot.

    Args:
        name: its own on the page: all ids in it begin so.
        height: of the plot; it is _WIDTH wide.
        draw: fills the figure.

    Returns:
        An <svg> element. Texts in it are escaped.
    """
    text = io.StringIO()
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # browsers have it
        figure = Figure(figsize=(_WIDTH / _DPI, height / _DPI), dpi=_DPI)
        FigureCanvasSVG(figure)
        draw(figure)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", dpi=_DPI, metadata=nothing, transparent=True)
    return _inline(text.getvalue(), name)


def _inline(svg: str, name: str) -> str:
    svg = svg[svg.index("<svg") :]
    parts = re.split(r"(<text[^>]*>[^<]*</text>)", svg)
    parts[::2] = [_named(_colored(part), name) for part in parts[::2]]
    parts[1::2] = [_text(part) for part in parts[1::2]]
    return "".join(parts)


def _text(element: str) -> str:
    """Colours of the element itself, not of its contents."""
    head, mark, rest = element.partition(">")
    return _colored(head) + mark + rest


def _colored(svg: str) -> str:
    return _CODE.sub(lambda found: f"var(--{_VARIABLES[found[0]]})", svg)


def _named(svg: str, name: str) -> str:
    return _NAME.sub(rf"\g<1>{name}-", svg)


def _plain_axes(figure: Figure, left: int, right: int, top: int, bottom: int) -> Axes:
    """Axes with these margins, and without a frame."""
    width, height = (side * _DPI for side in figure.get_size_inches())
    area = (left / width, bottom / height)
    size = ((width - left - right) / width, (height - top - bottom) / height)
    axes = figure.add_axes((*area, *size))
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    return axes
