"""A snapshot as metrics: which topics and queues get series, and their labels. Pure.

A hundred thousand queues are rendered in less than a second, which the Prometheus client library
does not do; so it is not used here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice

from orderly.monitoring.backlog.snapshot import QueueStatus, Snapshot, TopicStatus
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.backlog_json import Detail, is_bad
from orderly.monitoring.exporting.metrics import BROKER, GROUP, QUEUE, TOPIC
from orderly.monitoring.exporting.text import Blocks, label
from orderly.monitoring.exporting.told import GroupTold, Lost, TopicTold

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
    lost: Lost | None = None,
) -> Metrics:
    """Render a snapshot.

    Args:
        snapshot: what to tell.
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
        [GroupTold(each, snapshot.at) for each in groups],
    )
    topics, rows = chosen(snapshot, detail, MOST_SERIES - blocks.series)
    labels, totals = _Labels(cluster), (lost or Lost().after(snapshot)).totals
    blocks.add(
        TOPIC,
        [labels.of_topic(each.group, each.topic) for each in topics],
        [TopicTold(each, totals.get((each.group, each.topic), 0)) for each in topics],
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
