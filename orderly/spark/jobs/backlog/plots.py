"""Plots of this job: when who was in trouble, on one scale of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from orderly.foreign_text import escaped
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.drawing import COLORS, FAINT, INK, LINE, drawn, plain_axes
from orderly.monitoring.reporting.words import axis_times, shortened

_ROW, _LEFT, _RIGHT = 26, 206, 44  # pixels
_LETTERS = 34
_LEAST = 0.004  # of the width: the shortest period is still to be seen

Period = tuple[float, float]


def timeline(
    name: str,
    rows: Mapping[str, Mapping[str, Sequence[Period]]],
    begin: float,
    end: float,
) -> str:
    """Periods over time, a row for each thing; what was not measured is hatched.

    Args:
        name: its own on the page.
        rows: by label, top to bottom: periods by "broken", "stuck" and "gap".
        begin: of the scale, seconds since the epoch.
        end: of the scale.
    """

    def draw(figure: Figure) -> None:
        axes = plain_axes(figure, left=_LEFT, right=_RIGHT, top=2, bottom=24)
        axes.set_xlim(begin, end)
        axes.set_ylim(len(rows), 0)
        for y, periods in enumerate(rows.values()):
            axes.axhline(y + 0.5, color=LINE, linewidth=1, zorder=0)
            _periods(axes, y, periods, _LEAST * (end - begin))
        labels = [shortened(escaped(label), _LETTERS) for label in rows]
        axes.set_yticks([y + 0.5 for y in range(len(rows))], labels, color=INK)
        ticks = [begin, (begin + end) / 2, end]
        axes.set_xticks(ticks, axis_times(ticks))

    return drawn(name, _ROW * len(rows) + 28, draw)


def _periods(axes: Axes, y: int, periods: Mapping[str, Sequence[Period]], least: float) -> None:
    for begin, end in periods.get("gap", ()):
        gap = Rectangle((begin, y + 0.12), max(end - begin, least), 0.76, facecolor=LINE)
        gap.set(linewidth=0, hatch="//", edgecolor=FAINT)
        axes.add_patch(gap)
    for kind, verdict, top, height in (
        ("broken", Verdict.CRITICAL, 0.2, 0.38),
        ("stuck", Verdict.WARNING, 0.62, 0.2),
    ):
        for begin, end in periods.get(kind, ()):
            size = (max(end - begin, least), height)
            axes.add_patch(
                Rectangle((begin, y + top), *size, facecolor=COLORS[verdict], linewidth=0)
            )
