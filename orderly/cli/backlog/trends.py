"""How the backlog of each line went over the last rounds: a sparkline and an arrow. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

from orderly.cli.backlog.lines import Line

_BARS = "▁▂▃▄▅▆▇█"
_POINTS = 20
_LOOK_BACK = 5  # rounds an arrow compares with
Points = Sequence[int | None]


@final
class Trends:
    """What was seen of each line. A line that was not there in the last round is forgotten."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, str, str], deque[int | None]] = {}

    def take(self, lines: Sequence[Line]) -> None:
        """Note one round."""
        before, self._points = self._points, {}
        for line in lines:
            points = before.get(_name(line)) or deque[int | None](maxlen=_POINTS)
            points.append(line.figures.backlog)
            self._points[_name(line)] = points

    def text(self, line: Line, *, drawn: bool) -> str:
        """The trend of a line of the last round.

        Args:
            line: it.
            drawn: with characters that not every terminal has.
        """
        points = self._points[_name(line)]
        if not drawn:
            return arrow(points)
        return f"{arrow(points, ('▲', '▼', '=')) or ' '} {sparkline(points)}"


def _name(line: Line) -> tuple[str, str, str]:
    return (
        line.group.group,
        line.topic.topic if line.topic else "",
        str(line.row and line.row.queue),
    )


def sparkline(points: Points) -> str:
    """A bar a point, from 0 to the largest; a gap where it was not known."""
    top = max((point for point in points if point is not None), default=0) or 1
    return "".join(
        " " if point is None else _BARS[(point * (len(_BARS) - 1) + top - 1) // top]
        for point in points
    )


def arrow(points: Points, marks: Sequence[str] = ("up", "down", "same")) -> str:
    """More, less or the same as some rounds ago; "" if that is not known."""
    recent = [point for point in list(points)[-_LOOK_BACK:] if point is not None]
    if len(recent) < 2:
        return ""
    more, less, same = marks
    first, last = recent[0], recent[-1]
    return more if last > first else less if last < first else same
