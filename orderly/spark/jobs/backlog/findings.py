"""What was found, in a size that one machine holds: chosen from the tables, worst first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.words import clock, duration, plural
from orderly.monitoring.texts import iso_time

Row = Mapping[str, Any]
"""A row of a table by column; times are seconds since the epoch."""

_NAMED = 3  # groups in the headline
_JUDGED_BY = {"backlog": "measured", "head_age": "aged"}
"""By measure, the figure that counts the samples which can show that a promise was kept."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a report is made of.

    Attributes:
        limits: the promises, by "backlog" (messages) and "head_age" (seconds).
        begin, end: of the history, seconds since the epoch.
        groups: figures of every group, worst first; "incidents", "stuck", "gaps" are numbers.
        queues: the same of the worst queues; `queue_count` is how many there are.
        incidents, stuck: the longest, of groups and queues. Incidents are counted of groups alone
            (what a queue breaks, its group breaks, too), standstills of queues: `stuck_count`.
        gaps: the longest, of groups.
        season: of the worst groups, cells of weekday and hour.
        curve: of the worst groups, the backlog over time.
        step: seconds from one point of a curve to the next.
    """

    limits: Mapping[str, float]
    begin: float
    end: float
    groups: Sequence[Row]
    queues: Sequence[Row]
    queue_count: int
    incidents: Sequence[Row]
    stuck: Sequence[Row]
    stuck_count: int
    gaps: Sequence[Row]
    season: Sequence[Row]
    curve: Sequence[Row]
    step: float

    @property
    def incident_count(self) -> int:
        """Of groups."""
        return sum(group["incidents"] for group in self.groups)

    @property
    def gap_count(self) -> int:
        """Of groups."""
        return sum(group["gaps"] for group in self.groups)

    @property
    def broken(self) -> Sequence[Row]:
        """The groups that broke a promise."""
        return [group for group in self.groups if group["incidents"]]

    @property
    def judged(self) -> Sequence[Row]:
        """The groups of which all promises could be judged, if only once."""
        needed = ["measured", *(_JUDGED_BY[measure] for measure in self.limits)]
        return [group for group in self.groups if all(group[name] for name in needed)]

    @property
    def verdict(self) -> Verdict:
        """CRITICAL: a promise was broken; UNKNOWN: of no group could all promises be judged."""
        if self.broken:
            return Verdict.CRITICAL
        return Verdict.OK if self.judged else Verdict.UNKNOWN

    @property
    def headline(self) -> str:
        """The whole in one sentence."""
        groups = plural(len(self.groups), "group")
        span = f"over {duration(round(self.end - self.begin))}"
        if not any(group["measured"] for group in self.groups) and not self.broken:
            return f"Of {groups} nothing was measured {span}: every backlog is unknown."
        if self.broken:
            named = ", ".join(map(_broke, self.broken[:_NAMED]))
            more = f" and {len(self.broken) - _NAMED:,} more" * (len(self.broken) > _NAMED)
            return f"{len(self.broken):,} of {groups} broke a promise {span}: {named}{more}."
        if self.limits:
            return self._kept(span)
        return f"{groups} {span}{self._furthest()}; no promise was given to judge them by."

    def _kept(self, span: str) -> str:
        """Where nothing is known to be broken: by how many groups all promises were kept."""
        judged, asked = len(self.judged), promises(self.limits)
        left = plural(len(self.groups) - judged, "group")
        if not judged:
            return f"Of {left} it could not be judged {span}: {asked}."
        more = f" {left} could not be judged." * (judged < len(self.groups))
        return f"Kept {span}, by {plural(judged, 'group')}: {asked}.{more}"

    def _furthest(self) -> str:
        worst = max(self.groups, key=lambda group: group["most"] or 0)
        if not worst["most"]:
            return ", none of them ever behind"
        messages = plural(worst["most"], "message")
        return f", at most {messages} behind ({worst['group']}, {clock(worst['most_at'])})"

    def figures(self) -> dict[str, Any]:
        """For `result.json`."""
        return {
            "begin": iso_time(self.begin),
            "end": iso_time(self.end),
            "promises": dict(self.limits),
            "queues": self.queue_count,
            "incidents": self.incident_count,
            "stuck": self.stuck_count,
            "gaps": self.gap_count,
            "groups": [_written(group) for group in self.groups],
            "worst_queues": [_written(queue) for queue in self.queues],
            "longest_incidents": [_written(each) for each in self.incidents],
            "longest_stuck": [_written(each) for each in self.stuck],
            "longest_gaps": [_written(each) for each in self.gaps],
        }


_TIMES = ("begin", "end", "most_at", "worst_at")


def _written(row: Row) -> dict[str, Any]:
    """A row as JSON has it: times in ISO 8601; a group has no queue."""
    left_out = () if _is_queue(row) else ("topic", "broker", "queue_id")
    kept = {name: value for name, value in row.items() if name not in left_out}
    return kept | {name: iso_time(kept[name]) for name in _TIMES if kept.get(name) is not None}


def _broke(group: Row) -> str:
    incidents = plural(group["incidents"], "incident")
    return f"{group['group']} ({incidents}, {duration(round(group['breached_seconds']))})"


def promises(limits: Mapping[str, float]) -> str:
    """The promises in words."""
    told = {
        "backlog": lambda limit: f"at most {plural(int(limit), 'message')} behind",
        "head_age": lambda limit: f"none waiting for more than {duration(limit)}",
    }
    return ", ".join(told[measure](limit) for measure, limit in limits.items())


def where(row: Row) -> str:
    """What a row is about, as a reader likes it."""
    if not _is_queue(row):
        return str(row["group"])
    return f"{row['group']} · {row['topic']} {row['broker']}/{row['queue_id']}"


def _is_queue(row: Row) -> bool:
    return bool(row.get("queue_id", -1) >= 0)
