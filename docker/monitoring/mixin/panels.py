"""The parts of a dashboard: panels, and the expressions that most of them use.

In an expression, `%(C)s` is replaced by the chosen clusters, `%(G)s` by the chosen groups in them,
and `%(T)s` by the chosen topics of those. `max by` makes one line of the values of two exporters.
"""

from __future__ import annotations

from dataclasses import dataclass

HALF, THIRD, WHOLE = 12, 8, 24  # widths; a dashboard has 24 columns


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Attributes:
        title: with the unit, where Grafana does not show one.
        kind: "stat", "timeseries" or "table".
        queries: legend (in a table: heading of the column) and PromQL.
        unit: Grafana's name of it.
        width: of 24 columns.
        red_above: shown red above it; None: one colour.
        about: shown on hovering.
        stacked: lines lie on one another.
    """

    title: str
    kind: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = HALF
    red_above: float | None = None
    about: str = ""
    stacked: bool = False


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard: its fixed uid, title, variables beside the data source, and rows."""

    uid: str
    title: str
    variables: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]


def of_group(metric: str) -> str:
    """A group's figure."""
    return f"max by (cluster, group) (orderly_group_{metric}{{%(G)s}})"


def of_topic(metric: str) -> str:
    """A figure of a topic in a group."""
    return f"max by (cluster, group, topic) (orderly_topic_{metric}{{%(T)s}})"


def of_queue(metric: str, label: str = "") -> str:
    """A queue's figure; `label`: beside its name, another that the series has."""
    by = f"cluster, group, topic, broker, queue{label and f', {label}'}"
    return f"max by ({by}) (orderly_queue_{metric}{{%(T)s}})"


def of_broker(metric: str) -> str:
    """A broker's figure."""
    return f"max by (cluster, broker) (orderly_broker_{metric}{{%(C)s}})"


def by_state(metric: str, chosen: str) -> str:
    """How many queues are in each state."""
    one_each = f"max by (cluster, group, topic, state) (orderly_{metric}{{{chosen}}})"
    return f"sum by (state) ({one_each})"


def grown(counter: str, span: str) -> str:
    """By how much a counter of groups, or of their topics, grew."""
    increase = f"increase(orderly_{counter}{{%(G)s}}[{span}])"
    return f"max by (cluster, group, topic) ({increase})"
