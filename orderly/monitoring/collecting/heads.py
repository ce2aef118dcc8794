"""First unfinished messages: which are worth reading, and what was read of them."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import GroupReading, Head, Scan, TopicReading
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.collecting.questions import Asking
from orderly.ordering.lru import put_latest
from orderly.protocol.members import queue_reports

_TOPICS_A_HEAD = 4  # topics that are looked through for each head that may be read
_BAD = (Verdict.CRITICAL, Verdict.WARNING)


@dataclass(frozen=True, slots=True)
class LaggingQueue:
    """The first message of a queue that a group has not finished."""

    group: str
    queue: MessageQueue
    offset: int


def lagging_topics(scan: Scan) -> dict[str, tuple[str, ...]]:
    """By group, the topics in which messages are behind a committed offset.

    What was never committed does not count: where the group will begin is its own setting.
    """
    found: dict[str, list[str]] = {}
    for (group, topic), committed in scan.committed.items():
        reading = scan.topics.get(topic)
        if reading is None or committed == reading.maximum:
            continue
        if any(0 <= at < end for at, end in zip(committed, reading.maximum, strict=True)):
            found.setdefault(group, []).append(topic)
    return {group: tuple(topics) for group, topics in found.items()}


def lagging_brokers(reading: TopicReading, committed: tuple[int, ...]) -> list[str]:
    """The brokers of a topic's queues that lag, sorted."""
    places = zip(reading.queues, committed, reading.maximum, strict=True)
    return sorted({queue.broker_name for queue, at, end in places if 0 <= at < end})


def heads_of(scan: Scan, group: str, topic: str) -> Iterator[tuple[int, LaggingQueue]]:
    """The head of each lagging queue, and how many messages are behind it.

    Below the minimum the oldest stored message is the first there is to finish.
    """
    reading = scan.topics[topic]
    rows = zip(
        reading.queues,
        reading.minimum,
        scan.committed[group, topic],
        reading.maximum,
        strict=True,
    )
    for queue, start, at, end in rows:
        if at >= 0 and start >= 0 and max(at, start) < end:
            yield end - max(at, start), LaggingQueue(group, queue, max(at, start))


def head_offset(scan: Scan, group: str, queue: MessageQueue) -> int | None:
    """The offset of a queue's head; None: nothing waits there, or it is not known."""
    if (group, queue.topic) not in scan.committed or queue.topic not in scan.topics:
        return None
    heads = heads_of(scan, group, queue.topic)
    return next((place.offset for _, place in heads if place.queue == queue), None)


def worst_heads(
    scan: Scan,
    lagging: Mapping[str, Collection[str]],
    known: Callable[[LaggingQueue], bool],
    last: Snapshot | None,
    most: int,
) -> list[LaggingQueue]:
    """The heads to read now: of topics in trouble first, then where most messages wait.

    Args:
        scan: of now.
        lagging: by group, its topics (see `lagging_topics`).
        known: whether a head was read before: it does not change while it is the head.
        last: what the scan before was judged to be; None: there was none.
        most: how many.
    """
    if most <= 0:
        return []
    pairs = [(group, topic) for group, topics in lagging.items() for topic in topics]
    worst = heapq.nlargest(_TOPICS_A_HEAD * most, pairs, key=lambda pair: _rank(scan, last, *pair))
    heads: list[LaggingQueue] = []
    for group, topic in worst:
        ranked = sorted(heads_of(scan, group, topic), key=lambda found: -found[0])
        heads += [place for _, place in ranked if not known(place)][: most - len(heads)]
    return heads


def _rank(scan: Scan, last: Snapshot | None, group: str, topic: str) -> tuple[int, int]:
    behind = max(map(int.__sub__, scan.topics[topic].maximum, scan.committed[group, topic]))
    return _trouble(last, group, topic), behind


def _trouble(last: Snapshot | None, group: str, topic: str) -> int:
    """2: something critical was seen there, 1: something worth a warning, 0: neither."""
    status = last.groups.get(group) if last else None
    judged = status.topics.get(topic) if status else None
    if judged is None:
        return 0
    verdict = judged.sums.verdict
    return len(_BAD) - _BAD.index(verdict) if verdict in _BAD else 0


# --- reading them ---------------------------------------------------------------------------------


_MOST_READ = 1000  # heads that are kept; of one more, the one read longest ago is forgotten


def read_heads(asking: Asking, places: Sequence[LaggingQueue]) -> dict[LaggingQueue, Head | None]:
    """Read the heads of queues; None: the broker does not have it. Without an answer: left out."""
    if not places:
        return {}
    from orderly.monitoring.collecting.traceless_reading import (  # noqa: PLC0415  where some lag
        OffsetRange,
        read_ranges,
    )

    found = read_ranges(asking, [OffsetRange(place.queue, place.offset) for place in places])
    heads = zip(places, map(_head, found), strict=True)
    return {place: head for place, head in heads if not isinstance(head, OrderlyError)}


def _head(
    found: Sequence[ReceivedMessage | OrderlyError] | OrderlyError,
) -> Head | OrderlyError | None:
    first = found if isinstance(found, OrderlyError) else next(iter(found), None)
    if isinstance(first, BrokerError | ProtocolError):
        return first if first.retriable else None
    if first is None or isinstance(first, OrderlyError):
        return first
    return Head(
        first.queue_offset,
        first.sharding_key,
        first.tags or "",
        first.store_time,
        first.born_time,
        first.reconsume_times,
        first.stored_size,
    )


def with_attempts(
    heads: Mapping[MessageQueue, Head], reading: GroupReading
) -> dict[MessageQueue, Head]:
    """Heads with what members of ours report of them: how often they were tried, how they fail."""
    known = dict(heads)
    for info in reading.running.values():
        for queue, report in queue_reports(info).items():
            head = known.get(queue)
            if head is not None and head.offset == report.offset:
                known[queue] = replace(
                    head,
                    attempts=report.attempts,
                    fingerprint=report.reason,
                    because=report.because,
                )
    return known


class Heads:
    """The heads that were read and still are heads. One thread at a time."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, MessageQueue], tuple[int, Head | None]] = OrderedDict()

    def settle(self, scan: Scan) -> None:
        """Forget what is no head any more."""
        for (group, queue), (offset, _) in list(self._known.items()):
            if head_offset(scan, group, queue) != offset:
                del self._known[group, queue]

    def knows(self, place: LaggingQueue) -> bool:
        """Whether it was read, or the broker was found not to have it."""
        return (place.group, place.queue) in self._known

    @property
    def read(self) -> dict[tuple[str, MessageQueue], Head]:
        """Those that could be read, by group and queue."""
        return {place: head for place, (_, head) in self._known.items() if head is not None}

    def ask(self, asking: Asking, places: Sequence[LaggingQueue]) -> None:
        """Read some heads."""
        for place, head in read_heads(asking, places).items():
            put_latest(self._known, (place.group, place.queue), (place.offset, head), _MOST_READ)
