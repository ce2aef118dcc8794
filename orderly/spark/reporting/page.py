"""A job's report as one HTML file without scripts, that loads nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting import words
from orderly.monitoring.reporting.pages import drawing, page
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reporting.contents import Cell, Kind, Report

_RIGHT = {Kind.COUNT, Kind.NUMBER, Kind.SHARE, Kind.SECONDS}
_CLASSES = {Kind.KEY: "key", Kind.TIME: "time"}
_WRITTEN: dict[Kind, Callable[[Any], str]] = {
    Kind.COUNT: lambda value: f"{value:,}",
    Kind.NUMBER: lambda value: f"{value:,.2f}",
    Kind.SHARE: words.share,
    Kind.SECONDS: words.duration,
    Kind.TIME: words.clock,
}


def report_html(report: Report) -> str:
    """Write a report: a whole HTML document."""
    return page(
        __package__,
        "report.html",
        it=report,
        topics=_topics(report.origin.read),
        written=written,
        style=style,
        is_right=_RIGHT.__contains__,
        drawing=drawing,
        is_state=lambda cell: isinstance(cell, Verdict),
    )


def written(cell: Cell, kind: Kind) -> str:
    """A cell as a reader likes it."""
    if cell is None:
        return words.NOT_KNOWN
    return _WRITTEN.get(kind, str)(cell)


def style(kind: Kind) -> str:
    """The class of a cell, or ""."""
    return "number" if kind in _RIGHT else _CLASSES.get(kind, "")


@dataclass(frozen=True, slots=True)
class _TopicRead:
    """What was read of a topic, for a line."""

    name: str
    messages: int
    queues: tuple[QueueRange, ...]


def _topics(ranges: tuple[QueueRange, ...]) -> list[_TopicRead]:
    ordered = sorted(ranges)
    return [
        _TopicRead(topic, sum(each.messages for each in queues), queues)
        for topic, queues in (
            (name, tuple(same)) for name, same in groupby(ordered, key=lambda it: it.queue.topic)
        )
    ]
