"""First unfinished messages, read without a trace: no group, no subscription, no pull.

A place in a queue is looked up in its index (QUERY_CONSUME_QUEUE) and read from the broker's log
(VIEW_MESSAGE_BY_ID), which counts for no metric of the broker and creates nothing.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from orderly.client.pipeline import Question
from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import GroupReading, Head, Scan, TopicReading
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.collecting.questions import Asking
from orderly.ordering.lru import put_latest
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.members import queue_reports
from orderly.protocol.pull import ConsumeQueue, QueryConsumeQueue, ViewMessage, decode_consume_queue
from orderly.protocol.stored_message import decode_messages

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


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a queue to read: `count` from `start` on, fewer at the queue's end."""

    queue: MessageQueue
    start: int
    count: int = 1


Found = tuple[ReceivedMessage | OrderlyError, ...]
"""The messages of a stretch, in their order; an error in the place of one that cannot be read."""


def read_ranges(asking: Asking, stretches: Sequence[OffsetRange]) -> list[Found | OrderlyError]:
    """Read messages; an empty tuple where the queue has nothing at its `start`."""
    places = asking.ask([(each.queue.broker_name, _where(each)) for each in stretches])
    wanted = [
        (at, stretches[at].queue, stretches[at].start + number, entry.physical_offset)
        for at, found in enumerate(places)
        if isinstance(found, ConsumeQueue)
        for number, entry in enumerate(found.entries)
    ]
    bodies = asking.ask(
        [(queue.broker_name, _view(queue, offset, at)) for _, queue, offset, at in wanted]
    )
    read: dict[int, list[ReceivedMessage | OrderlyError]] = {}
    for (at, *_), body in zip(wanted, bodies, strict=True):
        read.setdefault(at, []).append(body)
    return [
        found if isinstance(found, OrderlyError) else tuple(read.get(at, ()))
        for at, found in enumerate(places)
    ]


def _where(each: OffsetRange) -> Question[ConsumeQueue | None]:
    queue = each.queue
    header = QueryConsumeQueue(
        topic=queue.topic, queue_id=queue.queue_id, index=each.start, count=each.count
    )
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: decode_consume_queue(reply.body),
        f"where offset {each.start} of {queue} is stored",
    )


def _view(queue: MessageQueue, offset: int, physical: int) -> Question[ReceivedMessage]:
    def read(reply: RemotingCommand) -> ReceivedMessage:
        messages = decode_messages(reply.body, queue.broker_name)
        found = next((m for m in messages if (m.queue, m.queue_offset) == (queue, offset)), None)
        if found is None:  # the broker reads whatever lies there
            raise ProtocolError(f"at offset {offset} of {queue} another message is stored")
        return found

    header = ViewMessage(offset=physical)
    what = f"the message at offset {offset} of {queue}"
    return Question(request(header.code, to_ext(header)), read, what)


def read_heads(asking: Asking, places: Sequence[LaggingQueue]) -> dict[LaggingQueue, Head | None]:
    """Read the heads of queues; None: the broker does not have it. Without an answer: left out."""
    found = read_ranges(asking, [OffsetRange(place.queue, place.offset) for place in places])
    heads = zip(places, map(_head, found), strict=True)
    return {place: head for place, head in heads if not isinstance(head, OrderlyError)}


def _head(found: Found | OrderlyError) -> Head | OrderlyError | None:
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
                known[queue] = replace(head, attempts=report.attempts, fingerprint=report.reason)
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
