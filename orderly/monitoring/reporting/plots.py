"""The plots of the backlog report: bars of backlog and drain time, columns of queues, lines."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from heapq import nlargest

from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.snapshot import QueueStatus, TopicStatus
from orderly.monitoring.reporting.charts import Bar, Stick, bars, columns, lines
from orderly.monitoring.reporting.words import count, duration

_COLUMNS = 64  # queues side by side


def backlog_plot(topics: Sequence[TopicStatus]) -> str:
    """Messages behind, a bar a topic and group."""
    shown = [
        Bar(
            _label(it),
            it.sums.backlog or 0,
            f"{count(it.sums.backlog)} {it.sums.state}",
            it.sums.verdict,
        )
        for it in topics
    ]
    return bars("backlog", shown)


def drain_plot(topics: Sequence[TopicStatus]) -> str:
    """Time until the backlog is worked off, on a logarithmic scale, a bar a topic and group."""
    etas = [(it, it.sums.drain_eta or 0.0) for it in topics]
    shown = [
        Bar(
            _label(it),
            math.log10(1 + eta) if math.isfinite(eta) else math.inf,
            duration(eta),
            it.sums.verdict,
        )
        for it, eta in etas
    ]
    return bars("drain", shown)


def _label(topic: TopicStatus) -> str:
    return f"{topic.group} · {topic.topic}"


def queues_plot(name: str, topic: TopicStatus) -> str:
    """Messages behind in each queue, in the order of queues; unknown ones as question marks."""
    rows = _largest(list(topic.rows()))
    brokers = sorted({row.queue.broker_name for row in rows})
    named = ", ".join(brokers[:3]) + (", …" if brokers[3:] else "")
    shown = [Stick(str(row.queue.queue_id), row.backlog, row.verdict) for row in rows]
    return columns(name, shown, f"queue, on {named}", borders=_borders(rows))


def _largest(rows: Sequence[QueueStatus]) -> list[QueueStatus]:
    """As many as find room, those with the largest backlog, sorted by queue."""
    kept = nlargest(_COLUMNS, rows, key=lambda row: -1 if row.backlog is None else row.backlog)
    return sorted(kept, key=lambda row: row.queue)


def _borders(rows: Sequence[QueueStatus]) -> list[int]:
    """Places at which another broker's queues begin."""
    brokers = [row.queue.broker_name for row in rows]
    return [place for place in range(1, len(brokers)) if brokers[place] != brokers[place - 1]]


def lines_plot(history: Mapping[str, Sequence[Point]]) -> str:
    """The backlog of some groups over the samples; a gap where it was not known."""
    shown = {
        group: [(point.at, point.backlog) for point in points] for group, points in history.items()
    }
    return lines("samples", shown)
