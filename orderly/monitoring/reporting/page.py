"""The report of the backlog as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.meanings import MEANINGS
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.reporting.contents import Contents, contents, waits, worked_off
from orderly.monitoring.reporting.drawing import SERIES
from orderly.monitoring.reporting.pages import drawing, page
from orderly.monitoring.reporting.plots import backlog_plot, drain_plot, lines_plot, queues_plot
from orderly.monitoring.reporting.troubles import troubles

TOP = 20
_QUEUE_PLOTS = 6


def report(
    snapshot: Snapshot,
    history: Mapping[str, Sequence[Point]] | None = None,
    *,
    samples: int = 1,
    top: int = TOP,
) -> str:
    """Write a report.

    Args:
        snapshot: what was measured last.
        history: by group, its backlog over the samples, oldest first.
        samples: how many there were.
        top: most lines of each table and plot; what is left out is said.

    Returns:
        A whole HTML document.
    """
    chosen = contents(snapshot, history or {}, samples, top)
    return page(
        __package__,
        "report.html",
        it=chosen,
        plots={name: drawing(svg) for name, svg in _plots(chosen).items()},
        by_queue=[
            (topic, drawing(queues_plot(f"queues-{number}", topic)))
            for number, topic in enumerate(_with_queues(chosen))
        ],
        troubles=troubles,
        waits=waits,
        worked_off=worked_off,
        meanings=MEANINGS,
    )


def _plots(chosen: Contents) -> dict[str, str]:
    plots = {}
    if chosen.behind:
        plots["backlog"] = backlog_plot(chosen.behind.shown)
    if chosen.draining:
        plots["drain"] = drain_plot(chosen.draining.shown)
    if lines := _lines(chosen):
        plots["samples"] = lines_plot(lines)
    return plots


def _lines(chosen: Contents) -> dict[str, Sequence[Point]]:
    """The groups that were furthest behind in one of the samples."""
    most = {
        name: max((point.backlog or 0 for point in points), default=0)
        for name, points in chosen.history.items()
    }
    names = sorted((name for name in most if most[name]), key=lambda name: -most[name])
    return {name: chosen.history[name] for name in names[: len(SERIES)]}


def _with_queues(chosen: Contents) -> list[Any]:
    several = (topic for topic in chosen.behind.shown if topic.sums.queues > 1)
    return list(islice(several, _QUEUE_PLOTS))
