"""The verdict on groups: from the states of their queues, and from thresholds.

What was really seen to be critical wins over what could not be measured, and that wins over a
warning: what is unknown can only be worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orderly.monitoring.backlog.snapshot import GroupStatus
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict, severity
from orderly.monitoring.backlog.thresholds import MEASURES, Limits, Measure, Thresholds
from orderly.monitoring.texts import counted


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a group is not OK."""

    verdict: Verdict
    group: str
    text: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A value that was judged, for performance data; None: not known. Ranges "" if not set."""

    group: str
    measure: Measure
    value: float | None
    warn: str
    crit: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, its reasons (worst first; none if OK), and the figures of every group."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    figures: tuple[Figure, ...]


VALUES: dict[Measure, Callable[[GroupStatus], float | None]] = {
    Measure.BACKLOG: lambda group: group.sums.backlog,
    Measure.HEAD_AGE: lambda group: group.sums.head_age,
    Measure.DRAIN_ETA: lambda group: group.sums.drain_eta,
    Measure.RETENTION_ETA: lambda group: group.sums.retention_eta,
    Measure.PARKED: lambda group: group.sums.parked_keys,
    Measure.DEAD: lambda group: None if group.dead is None else group.dead.messages,
    Measure.LOST: lambda group: group.sums.lost,
}

# Thresholds judge what these states tell of, so that a limit can be raised or switched off.
_BY_THRESHOLD = {QueueState.LOST, QueueState.LAGGING}


def judge(groups: Sequence[GroupStatus], thresholds: Thresholds) -> Judgement:
    """Judge groups.

    Args:
        groups: if there is none, nothing was measured: UNKNOWN.
        thresholds: of each group's sums (`head_age` is the oldest queue's, `drain_eta` the slowest
            queue's, `retention_eta` that of the queue eaten first).
    """
    found = [reason for group in groups for reason in _reasons(group, thresholds)]
    if not groups:
        found = [Reason(Verdict.UNKNOWN, "", "no group found")]
    found.sort(key=lambda reason: -severity(reason.verdict))
    figures = tuple(figure for group in groups for figure in _figures(group, thresholds))
    return Judgement(found[0].verdict if found else Verdict.OK, tuple(found), figures)


def _figures(group: GroupStatus, thresholds: Thresholds) -> Iterator[Figure]:
    for measure, value in VALUES.items():
        limits = thresholds.limits.get(measure, Limits())
        yield Figure(
            group.group, measure, value(group), str(limits.warn or ""), str(limits.crit or "")
        )


def _reasons(group: GroupStatus, thresholds: Thresholds) -> Iterator[Reason]:
    if not group.sums.queues:
        yield Reason(Verdict.UNKNOWN, group.group, "no queue found")
    for measure, limits in thresholds.limits.items():
        reason = _over(group, measure, limits)
        if reason is not None:
            yield reason
    yield from _by_state(group)


def _over(group: GroupStatus, measure: Measure, limits: Limits) -> Reason | None:
    value = VALUES[measure](group)
    if value is None:
        if _need_not_be_known(group, measure, limits):
            return None
        return Reason(Verdict.UNKNOWN, group.group, f"{measure} is not known")
    for verdict, limit in ((Verdict.CRITICAL, limits.crit), (Verdict.WARNING, limits.warn)):
        if limit is not None and limit.alerts(value):
            unit = MEASURES[measure].unit
            shown = f"{measure} {_shown(value)} {unit.removesuffix('s') if value == 1 else unit}"
            return Reason(verdict, group.group, f"{shown} (range {limit})")
    return None


def _need_not_be_known(group: GroupStatus, measure: Measure, limits: Limits) -> bool:
    """Nobody asked for dead letters; who does not keep order by key parks nothing."""
    if measure is Measure.DEAD:
        return not limits.given
    return not group.sums.queues or (measure is Measure.PARKED and group.order != "key")


def _shown(value: float) -> str:
    return "never ends," if value == float("inf") else f"{value:.10g}"


def _by_state(group: GroupStatus) -> Iterator[Reason]:
    """A reason for each state that is not in order, with its first queue as the example."""
    wanted = {s for s in group.sums.states if VERDICTS[s] and s not in _BY_THRESHOLD}
    if not wanted:
        return
    for row in group.rows():
        if row.state in wanted and row.state_verdict is not Verdict.OK:
            wanted.remove(row.state)
            count = queues_text(group.sums.states[row.state])
            text = f"{row.state} {count}, first {row.queue}: {row.cause}"
            yield Reason(row.state_verdict, group.group, text)


def queues_text(count: int) -> str:
    """1 queue, 2 queues."""
    return counted(count, "queue")
