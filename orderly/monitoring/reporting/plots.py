"""The plots of a report: bars of backlog and drain time, columns of queues, lines over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.snapshot import QueueStatus, TopicStatus
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.drawing import (
    COLORS,
    FAINT,
    INK,
    LINE,
    SERIES,
    TEXT,
    drawn,
    plain_axes,
)
from orderly.monitoring.reporting.words import clock, count, duration, shortened
from orderly.monitoring.texts import escaped

_ROW, _LABEL, _AFTER = 24, 206, 130  # pixels: a bar's row, its label, the text behind it
_LETTERS = 34  # of a label
_LINE_LETTERS = 20  # of a line's name, which is bold
_LINES_HEIGHT = 184  # pixels, of the plot over time without its margins
_COLUMNS = 64  # queues side by side
_DASHES = ("-", (0, (6, 2)), (0, (2, 2)), (0, (8, 2, 2, 2)), (0, (1, 1)))


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: how long it is, and what stands before and behind it; inf has no end."""

    label: str
    length: float
    text: str
    verdict: Verdict


def backlog_plot(topics: Sequence[TopicStatus]) -> str:
    """Messages behind, a bar a topic and group."""
    bars = [
        Bar(
            _label(it),
            it.sums.backlog or 0,
            f"{count(it.sums.backlog)} {it.sums.state}",
            it.sums.verdict,
        )
        for it in topics
    ]
    return _bars("backlog", bars)


def drain_plot(topics: Sequence[TopicStatus]) -> str:
    """Time until the backlog is worked off, on a logarithmic scale, a bar a topic and group."""
    etas = [(it, it.sums.drain_eta or 0.0) for it in topics]
    bars = [
        Bar(
            _label(it),
            math.log10(1 + eta) if math.isfinite(eta) else math.inf,
            duration(eta),
            it.sums.verdict,
        )
        for it, eta in etas
    ]
    return _bars("drain", bars)


def _label(topic: TopicStatus) -> str:
    return shortened(escaped(f"{topic.group} · {topic.topic}"), _LETTERS)


def _bars(name: str, bars: Sequence[Bar]) -> str:
    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=_LABEL, right=_AFTER, top=2, bottom=2)
        longest = max((bar.length for bar in bars if math.isfinite(bar.length)), default=0) or 1
        for place, bar in enumerate(bars):
            endless = math.isinf(bar.length)
            length = longest if endless else max(bar.length, longest / 200)
            hatch = "//" if endless else None
            axes.barh(
                place, length, height=0.62, color=COLORS[bar.verdict], hatch=hatch, linewidth=0
            )
            axes.text(length + longest / 50, place, bar.text, va="center_baseline", color=INK)
        axes.axvline(0, color=FAINT, linewidth=1)
        axes.set_xlim(0, longest)
        axes.set_ylim(len(bars) - 0.5, -0.5)
        axes.set_xticks([])
        axes.set_yticks(range(len(bars)), [bar.label for bar in bars], color=INK)

    return drawn(name, _ROW * len(bars) + 4, draw)


# --- queues --------------------------------------------------------------------------------------


def queues_plot(name: str, topic: TopicStatus) -> str:
    """Messages behind in each queue, in the order of queues; unknown ones as question marks."""
    rows = _largest(list(topic.rows()))

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=52, right=8, top=12, bottom=34)
        _columns(axes, rows)
        known = [row.backlog for row in rows if row.backlog is not None]
        if known:
            mean = sum(known) / len(known)
            axes.axhline(mean, color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.set_ylim(0, (max(known, default=0) or 1) * 1.08)
        axes.set_xlim(-0.6, len(rows) - 0.4)
        _count_axis(axes)
        _queue_axis(axes, rows)

    return drawn(name, 176, draw)


def _largest(rows: Sequence[QueueStatus]) -> list[QueueStatus]:
    """As many as find room, those with the largest backlog, sorted by queue."""
    kept = nlargest(_COLUMNS, rows, key=lambda row: -1 if row.backlog is None else row.backlog)
    return sorted(kept, key=lambda row: row.queue)


def _columns(axes: Axes, rows: Sequence[QueueStatus]) -> None:
    for place, row in enumerate(rows):
        if row.backlog is None:
            axes.text(place, 0, "?", ha="center", va="bottom", color=INK)
        else:
            axes.bar(place, row.backlog, width=0.72, color=COLORS[row.verdict], linewidth=0)


def _count_axis(axes: Axes) -> None:
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.grid(axis="y", color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _queue_axis(axes: Axes, rows: Sequence[QueueStatus]) -> None:
    step = -(-len(rows) // 16)
    places = range(0, len(rows), step)
    axes.set_xticks(places, [str(rows[place].queue.queue_id) for place in places])
    brokers = sorted({row.queue.broker_name for row in rows})
    named = ", ".join(map(escaped, brokers[:3])) + (", …" if brokers[3:] else "")
    axes.set_xlabel(shortened(f"queue, on {named}", 80), labelpad=2)
    for place in range(1, len(rows)):
        if rows[place].queue.broker_name != rows[place - 1].queue.broker_name:
            axes.axvline(place - 0.5, color=FAINT, linewidth=1)


# --- over time -----------------------------------------------------------------------------------


def lines_plot(history: Mapping[str, Sequence[Point]]) -> str:
    """The backlog of some groups over the samples; a gap where it was not known."""
    top = max((p.backlog or 0 for points in history.values() for p in points), default=0) or 1
    times = sorted({point.at for points in history.values() for point in points})

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=52, right=158, top=12, bottom=24)
        for place, points in enumerate(history.values()):
            axes.plot(
                [point.at for point in points],
                [math.nan if point.backlog is None else point.backlog for point in points],
                color=SERIES[place], linestyle=_DASHES[place], linewidth=2,
                marker="o", markersize=3.5,
            )  # fmt: skip
        axes.set_ylim(-0.03 * top, top * 1.08)
        _count_axis(axes)
        shown = [times[0], times[-1]] if len(times) < 5 else [times[0], _middle(times), times[-1]]
        axes.set_xticks(shown, [clock(at)[11:] for at in shown])
        axes.set_xlim(times[0], times[-1])
        _name_lines(axes, history, top)

    return drawn("samples", _LINES_HEIGHT + 36, draw)


def _middle(times: Sequence[float]) -> float:
    return times[len(times) // 2]


def _name_lines(axes: Axes, history: Mapping[str, Sequence[Point]], top: float) -> None:
    """Each line's name at its end, moved apart from the others."""
    ends = sorted(
        (next((p.backlog for p in reversed(points) if p.backlog is not None), 0), place, name)
        for place, (name, points) in enumerate(history.items())
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
