"""The table of metrics, and a snapshot as Prometheus' text or OpenMetrics. Pure.

Labels are identity only (cluster, group, topic, broker, queue); a state and an owner are labels
of metrics of their own. A reading of None is "not known" and makes no series.

https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from itertools import accumulate, islice
from operator import attrgetter
from typing import Any, Generic, TypeVar

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.backlog_json import Detail, is_bad


@dataclass(frozen=True, slots=True)
class GroupSubject:
    """A group at a moment: `at` is the scan's, for ages."""

    status: GroupStatus
    at: float

    @property
    def dead_letters_age(self) -> float | None:
        """Seconds since the oldest dead letter was stored; None: not known, or no dead letters."""
        dead = self.status.dead
        if dead is None or dead.oldest_at is None:
            return None
        return max(0.0, self.at - dead.oldest_at)


@dataclass(frozen=True, slots=True)
class TopicSubject:
    """A topic of a group, and how many of its messages were lost up to now."""

    status: TopicStatus
    lost_total: int

    @property
    def sums(self) -> Sums:
        """Of its queues."""
        return self.status.sums

    @property
    def skew_ratio(self) -> float | None:
        """Inflow of the busiest queue over the mean; None without inflow."""
        return None if self.status.skew is None else self.status.skew.max_over_mean


@dataclass(frozen=True, slots=True)
class ExporterFigures:
    """The exporter's own figures.

    Attributes:
        requests: by request code, over all scans.
        failures: scans that failed.
        last_success: when the last good one ended, since the epoch; None: there was none.
        scan_seconds: how long the last one took.
        age: seconds since what is served was read.
        series: how many are served; None: nobody counts.
    """

    requests: Mapping[int, int]
    failures: int
    last_success: float | None
    scan_seconds: float | None
    age: float | None
    series: int | None


@dataclass(frozen=True, slots=True)
class LostTotals:
    """Lost messages, added up over snapshots: a status shows only what is lost at present.

    Attributes:
        totals: by (group, topic); what is not in it lost nothing.
        last: by (group, queue), what the newest snapshot that knew it said.
    """

    totals: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last: Mapping[tuple[str, MessageQueue], int] = field(default_factory=dict)

    def after(self, snapshot: Snapshot) -> LostTotals:
        """Return the totals with a newer snapshot; what is gone from it is gone here."""
        totals: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, MessageQueue], int] = {}
        for group in snapshot.groups.values():
            for name, topic in group.topics.items():
                if topic.sums.lost or (group.group, name) in self.totals:
                    grown = self._grown(topic, last)
                    totals[group.group, name] = self.totals.get((group.group, name), 0) + grown
        return LostTotals(totals, last)

    def _grown(self, topic: TopicStatus, last: dict[tuple[str, MessageQueue], int]) -> int:
        """How many more are lost than were; a queue that was not read keeps what it had."""
        grown = 0
        for row in topic.rows():
            place = topic.group, row.queue
            before = self.last.get(place, 0)
            was_read = row.minimum is not None and row.committed is not None
            last[place] = row.lost if was_read else before
            grown += max(0, last[place] - before)
        return grown


# --- the table ------------------------------------------------------------------------------------


Subject = TypeVar("Subject")
Number = int | float


class MetricKind(StrEnum):
    """As the exposition formats call them; INFO is a gauge where a format does not know it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Metric(Generic[Subject]):
    """One metric with one series for each subject.

    Attributes:
        name: as the series are called.
        kind: what the number does.
        help: one line.
        read: the number; None: not known.
    """

    name: str
    kind: MetricKind
    help: str
    read: Callable[[Subject], Number | None]


@dataclass(frozen=True, slots=True)
class Labelled(Generic[Subject]):
    """One metric with a further label, and any number of series for each subject.

    Attributes:
        name, kind, help: as of `Metric`.
        label: its name.
        read: pairs of the label's value and the number.
    """

    name: str
    kind: MetricKind
    help: str
    label: str
    read: Callable[[Subject], Iterable[tuple[str, Number]]]


Level = tuple[Metric[Subject] | Labelled[Subject], ...]


def _states(sums: Sums) -> Iterable[tuple[str, Number]]:
    return sums.states.items()


def _owner(row: QueueStatus) -> Iterable[tuple[str, Number]]:
    return () if row.owner is None else ((row.owner, 1),)


def _parked_keys(row: QueueStatus) -> int | None:
    return None if row.parked is None else len(row.parked)


def _count(names: tuple[str, ...] | None) -> int | None:
    return None if names is None else len(names)


GAUGE, COUNTER, INFO = MetricKind

# fmt: off
QUEUE: Level[QueueStatus] = (
    Metric("orderly_queue_backlog_messages", GAUGE, "Messages not finished.",
           attrgetter("backlog")),
    Metric("orderly_queue_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("head_age")),
    Metric("orderly_queue_committed_offset", GAUGE, "Next to consume.", attrgetter("committed")),
    Metric("orderly_queue_max_offset", GAUGE,
           "Offset of the next message to be stored.", attrgetter("maximum")),
    Metric("orderly_queue_min_offset", GAUGE, "Oldest stored.", attrgetter("minimum")),
    Metric("orderly_queue_lost_messages", GAUGE,
           "Messages between the committed offset and the oldest stored: deleted unconsumed.",
           attrgetter("lost")),
    Labelled("orderly_queue_state", GAUGE, "1 for the state the queue is in.", "state",
             lambda row: ((row.state, 1),)),
    Metric("orderly_queue_drain_eta_seconds", GAUGE,
           "Until the backlog is gone; +Inf: never at this rate.", attrgetter("drain_eta")),
    Metric("orderly_queue_retention_eta_seconds", GAUGE,
           "Until the broker deletes the first message that is not consumed.",
           attrgetter("retention_eta")),
    Metric("orderly_queue_in_rate", GAUGE, "Messages stored a second.", attrgetter("in_rate")),
    Metric("orderly_queue_out_rate", GAUGE, "Messages committed a second.",
           attrgetter("out_rate")),
    Metric("orderly_queue_parked_keys", GAUGE, "Keys set aside.", _parked_keys),
    Metric("orderly_queue_parked_messages", GAUGE, "Messages of parked keys.",
           attrgetter("parked_messages")),
    Labelled("orderly_queue_owner_info", INFO, "The member that has the queue.", "client", _owner),
)

TOPIC: Level[TopicSubject] = (
    Metric("orderly_topic_backlog_messages", GAUGE,
           "Messages not finished, in the queues that could be measured.",
           attrgetter("sums.backlog")),
    Metric("orderly_topic_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("sums.head_age")),
    Metric("orderly_topic_in_rate", GAUGE, "Messages stored a second.", attrgetter("sums.in_rate")),
    Metric("orderly_topic_out_rate", GAUGE, "Messages committed a second.",
           attrgetter("sums.out_rate")),
    Metric("orderly_topic_drain_eta_seconds", GAUGE,
           "Until the slowest queue has no backlog; +Inf: never at this rate.",
           attrgetter("sums.drain_eta")),
    Metric("orderly_topic_retention_eta_seconds", GAUGE,
           "Until the broker deletes the first message that is not consumed.",
           attrgetter("sums.retention_eta")),
    Labelled("orderly_topic_queues", GAUGE, "Queues in a state.", "state",
             lambda topic: _states(topic.sums)),
    Metric("orderly_topic_skew_ratio", GAUGE,
           "Inflow of the busiest queue over the mean; 1 is even.", attrgetter("skew_ratio")),
    Metric("orderly_topic_lost_messages_total", COUNTER,
           "Messages found deleted before they were consumed.", attrgetter("lost_total")),
)

GROUP: Level[GroupSubject] = (
    Metric("orderly_group_backlog_messages", GAUGE,
           "Messages not finished, in the queues that could be measured.",
           attrgetter("status.sums.backlog")),
    Metric("orderly_group_head_age_seconds", GAUGE,
           "Since the oldest message not finished was stored.", attrgetter("status.sums.head_age")),
    Metric("orderly_group_drain_eta_seconds", GAUGE,
           "Until the slowest queue has no backlog; +Inf: never at this rate.",
           attrgetter("status.sums.drain_eta")),
    Metric("orderly_group_retention_eta_seconds", GAUGE,
           "Until the broker deletes the first message that is not consumed.",
           attrgetter("status.sums.retention_eta")),
    Labelled("orderly_group_queues", GAUGE, "Queues in a state.", "state",
             lambda group: _states(group.status.sums)),
    Labelled("orderly_group_state", GAUGE, "1 for the worst state of a queue.", "state",
             lambda group: ((group.status.sums.state, 1),)),
    Metric("orderly_group_members", GAUGE, "Members connected.",
           lambda group: _count(group.status.members)),
    Metric("orderly_group_idle_members", GAUGE, "Members known to have no queue.",
           lambda group: _count(group.status.idle)),
    Metric("orderly_group_parked_keys", GAUGE, "Keys set aside.",
           attrgetter("status.sums.parked_keys")),
    Metric("orderly_group_parked_messages", GAUGE, "Messages of parked keys.",
           attrgetter("status.sums.parked_messages")),
    Metric("orderly_group_parked_oldest_age_seconds", GAUGE,
           "Since the oldest parked message was stored.", attrgetter("status.sums.parked_age")),
    Metric("orderly_group_dead_letters", GAUGE, "Dead letters stored.",
           lambda group: group.status.dead.messages if group.status.dead else None),
    Metric("orderly_group_dead_letters_total", COUNTER, "Dead letters ever stored.",
           lambda group: group.status.dead.maximum if group.status.dead else None),
    Metric("orderly_group_dead_letters_oldest_age_seconds", GAUGE,
           "Since the oldest dead letter was stored.", attrgetter("dead_letters_age")),
    Metric("orderly_group_owner_changes_total", COUNTER, "Queues that changed their owner.",
           attrgetter("status.owner_changes")),
    Metric("orderly_group_findings", GAUGE, "Findings about the group as a whole.",
           lambda group: len(group.status.findings)),
)

BROKER: Level[BrokerReading] = (
    Metric("orderly_broker_up", GAUGE, "1 if the broker answered the last scan, else 0.",
           lambda broker: int(broker.error is None)),
    Metric("orderly_broker_clock_offset_seconds", GAUGE, "The broker's clock minus the exporter's.",
           attrgetter("clock_offset")),
    Metric("orderly_broker_scan_seconds", GAUGE, "Until the broker's last answer.",
           attrgetter("seconds")),
)

ITSELF: Level[ExporterFigures] = (
    Metric("orderly_scan_duration_seconds", GAUGE, "How long the last scan took.",
           attrgetter("scan_seconds")),
    Labelled("orderly_scan_requests_total", COUNTER, "Requests sent to brokers, by code.", "code",
             lambda itself: ((str(code), sent) for code, sent in itself.requests.items())),
    Metric("orderly_scan_failures_total", COUNTER, "Scans that failed.", attrgetter("failures")),
    Metric("orderly_scan_last_success_timestamp_seconds", GAUGE,
           "When the last scan succeeded, since the epoch.", attrgetter("last_success")),
    Metric("orderly_scan_age_seconds", GAUGE, "Since the data shown here was read.",
           attrgetter("age")),
    Metric("orderly_series", GAUGE, "Series, not counting those about the exporter itself.",
           attrgetter("series")),
)
# fmt: on

LEVELS: Mapping[str, Level[Any]] = {
    "broker": BROKER,
    "group": GROUP,
    "topic": TOPIC,
    "queue": QUEUE,
    "itself": ITSELF,
}


# --- names, labels and numbers as both formats write them -----------------------------------------


CONTENT_TYPE = {
    False: "text/plain; version=0.0.4; charset=utf-8",
    True: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
LONGEST_LABEL = 255  # characters; group names have as many at most, client ids any number
_DIGEST = 8  # hex digits that keep names apart which are equal up to there


class Blocks:
    """Metrics as text, one block for each, in the order in which they are added.

    Args:
        openmetrics: in that format; else in Prometheus' own.

    Attributes:
        series: how many were written.
    """

    def __init__(self, *, openmetrics: bool = False) -> None:
        self.series = 0
        self._openmetrics = openmetrics
        self._blocks: list[str] = []

    def add(self, level: Level[Subject], labels: Sequence[str], subjects: Sequence[Subject]) -> int:
        """Write all metrics of a level, and return of how many series.

        Args:
            level: its table.
            labels: of each subject, as `label` makes them, separated by commas; "" for none.
            subjects: what is read.
        """
        gauges = {metric.name for metric in level if metric.kind is MetricKind.GAUGE}
        before = self.series
        places = [f"{{{own}}}" if own else "" for own in labels]
        for metric in level:
            lines = list(_lines(metric, places, subjects))
            if lines:
                self._blocks += (self._header(metric, gauges), *lines)
                self.series += len(lines)
        return self.series - before

    def text(self) -> str:
        """All blocks; OpenMetrics without its end, as others may follow."""
        return "".join(self._blocks)

    def _header(self, metric: Metric[Subject] | Labelled[Subject], gauges: set[str]) -> str:
        family, kind = metric.name, str(metric.kind)
        if not self._openmetrics:
            kind = "gauge" if metric.kind is MetricKind.INFO else kind
        elif metric.kind is not MetricKind.GAUGE:
            family = family.removesuffix("_total").removesuffix("_info")
            if family in gauges:  # no two families of one name: the counter is of unknown type
                family, kind = metric.name, "unknown"
        return f"# HELP {family} {metric.help}\n# TYPE {family} {kind}\n"


def label(name: str, value: str) -> str:
    r"""One label, safe for any value: bounded, and quotes, `\` and controls escaped."""
    return f'{name}="{_escaped(value)}"'


def _escaped(value: str) -> str:
    if not value.isprintable():  # line breaks, controls, bidi overrides, lone surrogates
        value = "".join(map(_shown, value))
    if len(value) > LONGEST_LABEL:
        digest = sha256(value.encode()).hexdigest()[:_DIGEST]
        value = f"{value[: LONGEST_LABEL - _DIGEST - 1]}~{digest}"
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _lines(
    metric: Metric[Subject] | Labelled[Subject], places: Iterable[str], subjects: Iterable[Subject]
) -> Iterator[str]:
    """The series of a metric; a place is all labels of a subject, in braces."""
    name = metric.name
    if isinstance(metric, Labelled):
        for place, subject in zip(places, subjects, strict=True):
            begun = f"{name}{place[:-1]}," if place else f"{name}{{"
            for value, number in metric.read(subject):
                yield f"{begun}{label(metric.label, value)}}} {_number(number)}\n"
    else:
        for place, reading in zip(places, map(metric.read, subjects), strict=True):
            if reading is not None:
                yield f"{name}{place} {_number(reading)}\n"


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    return "+Inf" if value == float("inf") else f"{value:.13g}"


# --- which topics and queues get series, and their labels -----------------------------------------
# The Prometheus client library takes ten times as long (DESIGN, section 8), so it is not used.


MOST_SERIES = 5000  # with BAD_QUEUES, which is the default: what any Prometheus takes easily


@dataclass(frozen=True, slots=True)
class Metrics:
    """Metrics as text, and how many series they are."""

    text: str
    series: int


def metrics_of(
    snapshot: Snapshot,
    detail: Detail = Detail.BAD_QUEUES,
    *,
    openmetrics: bool = False,
    lost: LostTotals | None = None,
) -> Metrics:
    """Render a snapshot.

    Args:
        snapshot: what to render.
        detail: how far down. With BAD_QUEUES all groups, and as far as 5,000 series go the worst
            queues in trouble and all topics, the worst first; otherwise everything.
        openmetrics: in that format, without its end ("# EOF"); else in Prometheus' own.
        lost: totals over snapshots; None: this one is the first.
    """
    blocks = Blocks(openmetrics=openmetrics)
    cluster = label("cluster", snapshot.cluster)
    brokers, groups = list(snapshot.brokers.values()), list(snapshot.groups.values())
    blocks.add(BROKER, [f"{cluster},{label('broker', each.name)}" for each in brokers], brokers)
    blocks.add(
        GROUP,
        [f"{cluster},{label('group', each.group)}" for each in groups],
        [GroupSubject(each, snapshot.at) for each in groups],
    )
    topics, rows = chosen(snapshot, detail, MOST_SERIES - blocks.series)
    labels, totals = _Labels(cluster), (lost or LostTotals().after(snapshot)).totals
    blocks.add(
        TOPIC,
        [labels.of_topic(each.group, each.topic) for each in topics],
        [TopicSubject(each, totals.get((each.group, each.topic), 0)) for each in topics],
    )
    blocks.add(QUEUE, list(map(labels.of_queue, rows)), rows)
    return Metrics(blocks.text(), blocks.series)


def chosen(
    snapshot: Snapshot, detail: Detail, room: int = MOST_SERIES
) -> tuple[Sequence[TopicStatus], Sequence[QueueStatus]]:
    """Return the topics and the queues that get series, with BAD_QUEUES at most `room`."""
    if detail is Detail.GROUP:
        return (), ()
    topics = [topic for group in snapshot.groups.values() for topic in group.topics.values()]
    if detail is Detail.QUEUE:
        return topics, list(snapshot.rows())
    if detail is Detail.TOPIC:
        return topics, ()
    topics.sort(key=_trouble, reverse=True)
    rows = list(islice(_bad(topics), max(0, room // 2 // len(QUEUE))))
    sizes = accumulate(len(TOPIC) - 1 + len(topic.sums.states) for topic in topics)
    left = room - len(rows) * len(QUEUE)
    return topics[: sum(size <= left for size in sizes)], rows


def _trouble(topic: TopicStatus) -> tuple[bool, int]:
    return topic.sums.verdict is not Verdict.OK, topic.sums.backlog or 0


def _bad(topics: Iterable[TopicStatus]) -> Iterator[QueueStatus]:
    for topic in topics:
        if topic.sums.verdict is not Verdict.OK:  # rows cost something
            yield from filter(is_bad, topic.rows())


class _Labels:
    """Labels of topics and queues; each part is made once."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._topics: dict[tuple[str, str], str] = {}
        self._places: dict[tuple[str, int], str] = {}

    def of_topic(self, group: str, topic: str) -> str:
        name = group, topic
        found = self._topics.get(name)
        if found is None:
            found = f"{self._cluster},{label('group', group)},{label('topic', topic)}"
            self._topics[name] = found
        return found

    def of_queue(self, row: QueueStatus) -> str:
        queue = row.queue
        name = queue.broker_name, queue.queue_id
        place = self._places.get(name)
        if place is None:
            place = f'{label("broker", queue.broker_name)},queue="{queue.queue_id}"'
            self._places[name] = place
        return f"{self.of_topic(row.group, queue.topic)},{place}"
