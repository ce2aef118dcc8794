"""What a listing is about: lines of groups, topics or queues; filtered, sorted, cut. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState, Verdict, severity
from orderly.namespace import is_retry_topic


class Level(StrEnum):
    """What a line is about."""

    GROUP = "group"
    TOPIC = "topic"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Line:
    """A group, a topic of it (then `topic`), or a queue of that (then `row` too).

    Attributes:
        at: time of the snapshot.
    """

    at: float
    group: GroupStatus
    topic: TopicStatus | None = None
    row: QueueStatus | None = None

    @property
    def figures(self) -> QueueStatus | Sums:
        """What is known of it; both have the same figures."""
        if self.row is not None:
            return self.row
        return self.group.sums if self.topic is None else self.topic.sums

    @property
    def bad(self) -> bool:
        """Whether there is trouble in it."""
        findings = self.topic is None and bool(self.group.findings)
        return findings or self.figures.verdict is not Verdict.OK

    @property
    def dead_age(self) -> float | None:
        """Seconds since the oldest dead letter of the group was stored."""
        dead = self.group.dead
        if dead is None or dead.oldest_at is None:
            return None
        return max(0.0, self.at - dead.oldest_at)


@dataclass(frozen=True, slots=True)
class Cut:
    """Which lines, and in which order.

    Attributes:
        level: what a line is about; None: what suits the format.
        only_bad: only those in trouble.
        sort_by: one of ORDERS; "": as they come.
        top: only the first so many; None: all.
        retry: also retry topics that have nothing to tell.
    """

    level: Level | None = None
    only_bad: bool = False
    sort_by: str = ""
    top: int | None = None
    retry: bool = False

    def fit(self, *, told_by_line: bool) -> Cut:
        """With a level: a document tells all."""
        default = Level.TOPIC if told_by_line else Level.QUEUE
        return replace(self, level=self.level or default)


_PLACE = {state: -place for place, state in enumerate(QueueState)}


def _dead(line: Line) -> int | None:
    return None if line.group.dead is None else line.group.dead.messages


Measure = Callable[[Line], tuple[float, ...] | float | None]
ORDERS: dict[str, tuple[Measure, bool]] = {
    "state": (lambda line: (severity(line.figures.verdict), _PLACE[line.figures.state]), True),
    "backlog": (lambda line: line.figures.backlog, True),
    "age": (lambda line: line.figures.head_age, True),
    "eta": (lambda line: line.figures.drain_eta, True),
    "retention": (lambda line: line.figures.retention_eta, False),
    "in": (lambda line: line.figures.in_rate, True),
    "out": (lambda line: line.figures.out_rate, True),
    "lost": (lambda line: line.figures.lost, True),
    "parked": (lambda line: line.figures.parked_messages, True),
    "dead": (_dead, True),
}
"""By name, what is compared, and whether the largest is first. What is not known is last."""


def lines_of(snapshot: Snapshot, cut: Cut) -> list[Line]:
    """The lines of a listing."""
    found = [
        line
        for group in snapshot.groups.values()
        for line in lines_of_group(snapshot.at, group, cut)
        if line.bad or not cut.only_bad
    ]
    if order := cut.sort_by or (cut.top is not None and "backlog"):
        found = _sorted(found, order)
    return found[: cut.top]


def lines_of_group(at: float, group: GroupStatus, cut: Cut) -> Iterator[Line]:
    """The lines of one group, as they come."""
    if cut.level is Level.GROUP:
        yield Line(at, group)
        return
    for topic in group.topics.values():
        line = Line(at, group, topic)
        if _idle_retry(line) and not cut.retry:
            continue
        if cut.level is Level.TOPIC:
            yield line
        else:
            yield from (replace(line, row=row) for row in topic.rows())


def _idle_retry(line: Line) -> bool:
    """Whether it is of a group's own retry topic and has nothing to tell."""
    if line.topic is None or not is_retry_topic(line.topic.topic):
        return False
    return line.topic.sums.backlog == 0 and not line.bad


def _sorted(lines: list[Line], order: str) -> list[Line]:
    measure, largest_first = ORDERS[order]
    known = [line for line in lines if measure(line) is not None]
    unknown = [line for line in lines if measure(line) is None]
    return sorted(known, key=measure, reverse=largest_first) + unknown  # type: ignore[arg-type]


def narrowed(snapshot: Snapshot, lines: Sequence[Line]) -> Snapshot:
    """The snapshot with nothing but what the lines are about, in their order."""
    topics: dict[str, dict[str, TopicStatus]] = {}
    rows: dict[tuple[str, str], list[QueueStatus]] = {}
    groups: dict[str, GroupStatus] = {}
    for line in lines:
        name = line.group.group
        groups[name] = line.group
        if line.topic is None:
            continue
        topics.setdefault(name, {})[line.topic.topic] = line.topic
        if line.row is not None:
            rows.setdefault((name, line.topic.topic), []).append(line.row)
    for (name, topic), kept in rows.items():
        topics[name][topic] = replace(topics[name][topic], make_rows=kept.copy)
    chosen = {
        name: replace(group, topics=topics[name]) if name in topics else group
        for name, group in groups.items()
    }
    return replace(snapshot, groups=chosen)
