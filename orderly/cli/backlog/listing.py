"""What a listing shows: lines of groups, topics or queues, and their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import click

from orderly.cli.options import gathered
from orderly.cli.output import CommandOutput
from orderly.cli.selection import Names
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState, Verdict, severity
from orderly.monitoring.backlog.thresholds import Thresholds, judge
from orderly.monitoring.backlog_json import Detail, document
from orderly.monitoring.texts import Cell, Column, ColumnKind
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
class ListingOptions:
    """Which lines, and in which order.

    Attributes:
        level: what a line is about; None: what suits the format.
        only_bad: only those in trouble.
        sort_by: one of ORDERS; "": as they come.
        top: only the first so many; None: all.
        retry: also retry topics that have nothing to show.
    """

    level: Level | None = None
    only_bad: bool = False
    sort_by: str = ""
    top: int | None = None
    retry: bool = False

    def fit(self, *, by_line: bool) -> ListingOptions:
        """With a level: a document shows all."""
        default = Level.TOPIC if by_line else Level.QUEUE
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
    "parked": (lambda line: line.figures.parked_keys, True),
    "dead": (_dead, True),
}
"""By name, what is compared, and whether the largest is first. What is not known is last."""


def lines_of(snapshot: Snapshot, cut: ListingOptions) -> list[Line]:
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


def lines_of_group(at: float, group: GroupStatus, cut: ListingOptions) -> Iterator[Line]:
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
    """Whether it is of a group's own retry topic and has nothing to show."""
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


# --- the columns, for groups, topics and queues, in one table -------------------------------------


Of = Callable[[Line], Any]  # a Cell
"""Takes a cell from a line."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, the levels that have it, and where its cells come from."""

    column: Column
    levels: tuple[Level, ...]
    of: Of


_ALL = (Level.GROUP, Level.TOPIC, Level.QUEUE)
_SUMS = (Level.GROUP, Level.TOPIC)
_QUEUE = (Level.QUEUE,)


def _figure(name: str) -> Of:
    """A figure of a queue, or of several together."""
    return lambda line: getattr(line.figures, name)


def _row(name: str) -> Of:
    """A figure that only a queue has."""
    return lambda line: getattr(line.row, name, None)


def _place(name: str) -> Of:
    """Where the queue is."""
    return lambda line: getattr(line.row and line.row.queue, name, None)


def _head(name: str) -> Of:
    """A fact about the first message not finished."""
    return lambda line: getattr(line.row and line.row.head, name, None)


def _members(line: Line) -> Cell:
    return None if line.group.members is None else len(line.group.members)


def _dead_letters(line: Line) -> Cell:
    return None if line.group.dead is None else line.group.dead.messages


def _skew(line: Line) -> Cell:
    return getattr(line.topic and line.topic.skew, "max_over_mean", None)


FIELDS = (
    Field(Column("group"), _ALL, lambda line: line.group.group),
    Field(
        Column("topic"), (Level.TOPIC, Level.QUEUE), lambda line: getattr(line.topic, "topic", None)
    ),
    Field(Column("broker"), _QUEUE, _place("broker_name")),
    Field(Column("queue", ColumnKind.COUNT), _QUEUE, _place("queue_id")),
    Field(Column("state", ColumnKind.STATE), _ALL, lambda line: str(line.figures.state)),
    Field(Column("min", ColumnKind.COUNT, wide=True), _QUEUE, _row("minimum")),
    Field(Column("committed", ColumnKind.COUNT), _QUEUE, _row("committed")),
    Field(Column("max", ColumnKind.COUNT), _QUEUE, _row("maximum")),
    Field(Column("span", ColumnKind.COUNT, wide=True), _QUEUE, _row("span")),
    Field(Column("backlog", ColumnKind.COUNT), _ALL, _figure("backlog")),
    Field(Column("age", ColumnKind.SECONDS), _ALL, _figure("head_age")),
    Field(Column("eta", ColumnKind.SECONDS), _ALL, _figure("drain_eta")),
    Field(Column("parked", ColumnKind.COUNT), _ALL, _figure("parked_keys")),
    Field(Column("dead", ColumnKind.COUNT), _SUMS, _dead_letters),
    Field(Column("queues", ColumnKind.COUNT), _SUMS, _figure("queues")),
    Field(Column("unknown", ColumnKind.COUNT, wide=True), _SUMS, _figure("unknown")),
    Field(Column("members", ColumnKind.COUNT), _SUMS, _members),
    Field(Column("in/s", ColumnKind.RATE, wide=True), _ALL, _figure("in_rate")),
    Field(Column("out/s", ColumnKind.RATE, wide=True), _ALL, _figure("out_rate")),
    Field(Column("retention", ColumnKind.SECONDS, wide=True), _ALL, _figure("retention_eta")),
    Field(Column("lost", ColumnKind.COUNT, wide=True), _ALL, _figure("lost")),
    Field(Column("parked messages", ColumnKind.COUNT, wide=True), _ALL, _figure("parked_messages")),
    Field(Column("parked age", ColumnKind.SECONDS, wide=True), _ALL, _figure("parked_age")),
    Field(Column("dead age", ColumnKind.SECONDS, wide=True), _SUMS, lambda line: line.dead_age),
    Field(Column("skew", ColumnKind.RATIO, wide=True), (Level.TOPIC,), _skew),
    Field(Column("key", wide=True), _QUEUE, _head("key")),
    Field(Column("attempts", ColumnKind.COUNT, wide=True), _QUEUE, _head("attempts")),
    Field(Column("owner", wide=True), _QUEUE, _row("owner")),
    Field(Column("cause", wide=True), _QUEUE, _row("cause")),
    Field(
        Column("findings", ColumnKind.COUNT, wide=True),
        (Level.GROUP,),
        lambda line: len(line.group.findings),
    ),
)


def fields_of(level: Level) -> list[Field]:
    """The columns of a level."""
    return [field for field in FIELDS if level in field.levels]


F = TypeVar("F", bound=Callable[..., Any])


_CUT = (
    click.option(
        "--by",
        type=click.Choice([str(level) for level in Level]),
        help="One line per group, topic or queue. Default: topic. json and yaml show every level.",
    ),
    click.option("--only-bad", is_flag=True, help="Only those with a problem."),
    click.option(
        "--sort-by",
        type=click.Choice(list(ORDERS)),
        help="Sort by this, worst first. Default: by name; with --top by backlog.",
    ),
    click.option("--top", type=click.IntRange(1), metavar="N", help="Only the first N lines."),
    click.option(
        "--all",
        is_flag=True,
        help="Also %RETRY% topics with nothing to show.",
    ),
)


def cut_options(command: F) -> F:
    """Add --by, --only-bad, --sort-by, --top and --all as the argument `cut`."""
    return gathered(command, _CUT, ("by", "only_bad", "sort_by", "top", "all"), _cut, "cut")


def _cut(
    by: str | None, only_bad: bool, sort_by: str | None, top: int | None, retry: bool
) -> ListingOptions:
    return ListingOptions(Level(by) if by else None, only_bad, sort_by or "", top, retry)


def listing(snapshot: Snapshot, lines: Sequence[Line], cut: ListingOptions) -> CommandOutput:
    """The lines in all formats."""
    assert cut.level is not None
    fields = fields_of(cut.level)
    shown = narrowed(snapshot, lines)
    detail = Detail.BAD_QUEUES if cut.only_bad and cut.level is Level.TOPIC else Detail(cut.level)
    return CommandOutput(
        [field.column for field in fields],
        [[field.of(line) for field in fields] for line in lines],
        partial(document, shown, detail),
        partial(metrics, shown, detail),
        partial(_verdict_line, shown),
    )


def metrics(snapshot: Snapshot, detail: Detail = Detail.BAD_QUEUES) -> str:
    """Prometheus' text."""
    from orderly.monitoring.metrics import metrics_of  # noqa: PLC0415  only here

    return metrics_of(snapshot, detail).text


def _verdict_line(snapshot: Snapshot) -> str:
    from orderly.cli.backlog.verdict_line import verdict_line  # noqa: PLC0415  only here

    groups = list(snapshot.groups.values())
    return verdict_line(judge(groups, Thresholds.parse({}, {})), groups)


def unread(snapshot: Snapshot) -> bool:
    """Whether something could not be read."""
    if any(broker.error for broker in snapshot.brokers.values()):
        return True
    return any(QueueState.UNKNOWN in group.sums.states for group in snapshot.groups.values())


def nothing(snapshot: Snapshot, cut: ListingOptions, names: Names) -> str:
    """Why there is no line."""
    if cut.only_bad and snapshot.groups:
        count = len(snapshot.groups)
        return "the group is in order" if count == 1 else f"all {count} groups are in order"
    if names.groups or names.topics:
        return f"no group matches {', '.join((*names.groups, *names.topics))}"
    return (
        "no group has committed an offset: start a consumer, or give GROUP and --topic to see"
        " a topic's queues"
    )
