"""Plots of this job: how concentrated messages are, and what numbers of queues would give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orderly.foreign_text import escaped
from orderly.monitoring.reporting.drawing import FAINT, INK, LINE, SERIES, drawn, plain_axes
from orderly.monitoring.reporting.words import share

_HEIGHT = 232  # pixels
_DASHES = ("-", (0, (6, 2)), (0, (2, 2)), (0, (8, 2, 2, 2)), (0, (1, 1)))

Points = Sequence[tuple[float, float]]


def concentration_plot(name: str, points: Points) -> str:
    """Which share of the keys, the most frequent first, has which share of the messages.

    Args:
        name: its own on the page.
        points: both shares, from (0, 0) to (1, 1).
    """

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=56, right=16, top=10, bottom=40)
        keys, messages = [point[0] for point in points], [point[1] for point in points]
        axes.plot((0, 1), (0, 1), color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(keys, messages, color=SERIES[0], linewidth=2)
        axes.fill_between(keys, messages, color=SERIES[0], alpha=0.12, linewidth=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: share(value)))
        _plain(axes, "share of the keys, the most frequent first", "of the messages")
        axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)

    return drawn(name, _HEIGHT, draw)


def what_if_plot(name: str, lines: Mapping[str, Points], now: int) -> str:
    """The busiest queue over the mean by the number of queues.

    Args:
        name: its own on the page.
        lines: at most five, by what they are called.
        now: the present number of queues.
    """

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=44, right=112, top=10, bottom=40)
        axes.axvline(now, color=FAINT, linewidth=1, linestyle=(0, (4, 3)))
        for place, (label, points) in enumerate(lines.items()):
            marker = "o" if len(points) < 12 else ""
            axes.plot(
                *zip(*points, strict=True), color=SERIES[place], linestyle=_DASHES[place],
                linewidth=1.8, marker=marker, markersize=3.5, label=escaped(label),
            )  # fmt: skip
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        _plain(axes, f"queues; dashed: now, {now}", "")
        axes.set_ylim(bottom=0)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.0, 1.02), frameon=False, labelcolor=INK,
            handlelength=1.6, borderaxespad=0.4,
        )  # fmt: skip

    return drawn(name, _HEIGHT, draw)


def _plain(axes: Axes, below: str, beside: str) -> None:
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(below, labelpad=2)
    axes.set_ylabel(beside, labelpad=2)
