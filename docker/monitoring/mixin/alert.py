"""The parts of an alert: its query, how long it must hold, and its text.

Alerts use the group's figures, which the exporter has in every granularity. So an alert names a
group, and `orderly backlog explain` the queues. Comparisons keep all labels, so two exporters of
one cluster do not disturb each other. A value that vanishes or is unknown has no series, and fires
nothing; the alerts on the scan report that the watching itself ended.
"""

from __future__ import annotations

from dataclasses import dataclass

GROUP = "Group {{ $labels.group }}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One alerting rule.

    Attributes:
        name: also the heading of its section in docs/how-to/alerts.md.
        severity: "critical" (somebody should get up), "warning" (today), "info" (some day).
        expr: PromQL; what it returns, fires.
        wait: how long it must hold first.
        keep: how long it goes on firing, so that one failed scan is no end and no new alert.
        summary: one line with the names.
        description: what was seen, in the words of `orderly backlog explain`.
    """

    name: str
    severity: str
    expr: str
    wait: str
    keep: str
    summary: str
    description: str


def in_state(state: str) -> str:
    """Groups with queues in that state."""
    return f'orderly_group_queues{{state="{state}"}} > 0'
