"""Thresholds: what is watched about a group, what is a warning or critical; and the verdict.

A verdict follows from the states of a group's queues, and from thresholds. What was really seen
to be critical wins over what could not be measured, and that wins over a warning: what is unknown
can only be worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import Range
from orderly.monitoring.backlog.snapshot import GroupStatus
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict, severity
from orderly.monitoring.texts import counted


class Measure(StrEnum):
    """A figure of a group (or, in rule LAGGING, of a queue) that a threshold may be set for."""

    BACKLOG = "backlog"
    HEAD_AGE = "head_age"
    DRAIN_ETA = "drain_eta"
    RETENTION_ETA = "retention_eta"
    PARKED = "parked"
    DEAD = "dead"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class MeasureInfo:
    """What a measure is: its unit ("messages", "keys" or "seconds"), and a line of help."""

    unit: str
    help: str

    @property
    def duration(self) -> bool:
        """Whether it is a time."""
        return self.unit == "seconds"


MEASURES = {
    Measure.BACKLOG: MeasureInfo("messages", "messages stored and not finished"),
    Measure.HEAD_AGE: MeasureInfo("seconds", "age of the oldest message that is not finished"),
    Measure.DRAIN_ETA: MeasureInfo("seconds", "time until the slowest queue has no backlog"),
    Measure.RETENTION_ETA: MeasureInfo(
        "seconds", "time until the broker deletes messages not consumed"
    ),
    Measure.PARKED: MeasureInfo("keys", "keys that wait in the park topic"),
    Measure.DEAD: MeasureInfo("messages", "messages in the dead letter topic"),
    Measure.LOST: MeasureInfo("messages", "messages deleted before they were consumed"),
}
DEFAULT_WARN = {Measure.PARKED: "0", Measure.DEAD: "0"}  # they no longer count as backlog
DEFAULT_CRIT = {Measure.LOST: "0"}


@dataclass(frozen=True, slots=True)
class ThresholdLimits:
    """When a value is a warning, and when it is critical; None: never.

    `given` by somebody, not by default: then a value that is not known is not in order, either.
    """

    warn: Range | None = None
    crit: Range | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits by measure; a measure without an entry is not judged."""

    limits: Mapping[Measure, ThresholdLimits]

    @classmethod
    def parse(cls, warn: Mapping[str, str], crit: Mapping[str, str]) -> Self:
        """Read thresholds from texts; what is not given is as by default.

        By default parked keys and dead letters are a warning, and lost messages are critical;
        the range `~:` switches a default off.

        Args:
            warn: ranges by name of a Measure. Those of times take durations. A bare number for
                `retention_eta` alerts below it, as `N:` does.
            crit: as `warn`.

        Raises:
            ConfigError: an unknown measure, a text that is no range, or a `warn` that alerts of
                nothing but what `crit` alerts of too.
        """
        for name in {*warn, *crit} - set(Measure):
            raise ConfigError(f"no threshold {name!r}: take one of {', '.join(Measure)}")
        limits = {measure: _limits(measure, warn, crit) for measure in Measure}
        return cls({name: found for name, found in limits.items() if found.warn or found.crit})


def _limits(measure: Measure, warn: Mapping[str, str], crit: Mapping[str, str]) -> ThresholdLimits:
    limits = ThresholdLimits(
        _range(measure, warn.get(measure, DEFAULT_WARN.get(measure))),
        _range(measure, crit.get(measure, DEFAULT_CRIT.get(measure))),
        given=measure in warn or measure in crit,
    )
    if measure in warn and limits.warn and limits.crit and limits.crit.hides(limits.warn):
        raise ConfigError(
            f"{measure}: warning {limits.warn} is within critical {limits.crit}, so WARNING could"
            " never be reached; set them the other way round"
        )
    return limits


def _range(measure: Measure, text: str | None) -> Range | None:
    if text is None:
        return None
    bare = measure is Measure.RETENTION_ETA and not {":", "@"} & set(text)
    try:
        found = Range.parse(text + ":" if bare else text, duration=MEASURES[measure].duration)
    except ConfigError as error:
        raise ConfigError(f"{measure}: {error}") from error
    return None if found.never else found


NO_THRESHOLDS = Thresholds({})


# --- the verdict on groups ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotOkReason:
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
    reasons: tuple[NotOkReason, ...]
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

# Thresholds judge what these states are about, so that a limit can be raised or switched off.
_BY_THRESHOLD = {QueueState.LOST, QueueState.LAGGING}


def judge(groups: Sequence[GroupStatus], thresholds: Thresholds) -> Judgement:
    """Judge groups.

    Args:
        groups: if empty, nothing was measured: UNKNOWN.
        thresholds: of each group's sums (`head_age` is the oldest queue's, `drain_eta` the slowest
            queue's, `retention_eta` that of the queue eaten first).
    """
    found = [reason for group in groups for reason in _reasons(group, thresholds)]
    if not groups:
        found = [NotOkReason(Verdict.UNKNOWN, "", "no group found")]
    found.sort(key=lambda reason: -severity(reason.verdict))
    figures = tuple(figure for group in groups for figure in _figures(group, thresholds))
    return Judgement(found[0].verdict if found else Verdict.OK, tuple(found), figures)


def _figures(group: GroupStatus, thresholds: Thresholds) -> Iterator[Figure]:
    for measure, value in VALUES.items():
        limits = thresholds.limits.get(measure, ThresholdLimits())
        yield Figure(
            group.group, measure, value(group), str(limits.warn or ""), str(limits.crit or "")
        )


def _reasons(group: GroupStatus, thresholds: Thresholds) -> Iterator[NotOkReason]:
    if not group.sums.queues:
        yield NotOkReason(Verdict.UNKNOWN, group.group, "no queue found")
    for measure, limits in thresholds.limits.items():
        reason = _over(group, measure, limits)
        if reason is not None:
            yield reason
    yield from _by_state(group)


def _over(group: GroupStatus, measure: Measure, limits: ThresholdLimits) -> NotOkReason | None:
    value = VALUES[measure](group)
    if value is None:
        if _need_not_be_known(group, measure, limits):
            return None
        return NotOkReason(Verdict.UNKNOWN, group.group, f"{measure} is not known")
    for verdict, limit in ((Verdict.CRITICAL, limits.crit), (Verdict.WARNING, limits.warn)):
        if limit is not None and limit.alerts(value):
            unit = MEASURES[measure].unit
            shown = f"{measure} {_shown(value)} {unit.removesuffix('s') if value == 1 else unit}"
            return NotOkReason(verdict, group.group, f"{shown} (range {limit})")
    return None


def _need_not_be_known(group: GroupStatus, measure: Measure, limits: ThresholdLimits) -> bool:
    """Nobody asked for dead letters; who does not keep order by key parks nothing."""
    if measure is Measure.DEAD:
        return not limits.given
    return not group.sums.queues or (measure is Measure.PARKED and group.order != "key")


def _shown(value: float) -> str:
    return "never ends," if value == float("inf") else f"{value:.10g}"


def _by_state(group: GroupStatus) -> Iterator[NotOkReason]:
    """A reason for each state that is not in order, with its first queue as the example."""
    wanted = {s for s in group.sums.states if VERDICTS[s] and s not in _BY_THRESHOLD}
    if not wanted:
        return
    for row in group.rows():
        if row.state in wanted and row.state_verdict is not Verdict.OK:
            wanted.remove(row.state)
            count = queues_text(group.sums.states[row.state])
            text = f"{row.state} {count}, first {row.queue}: {row.cause}"
            yield NotOkReason(row.state_verdict, group.group, text)


def queues_text(count: int) -> str:
    """1 queue, 2 queues."""
    return counted(count, "queue")
