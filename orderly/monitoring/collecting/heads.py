"""First unfinished messages, read without a trace: no group, no subscription, no pull.

A place in a queue is looked up in its index (QUERY_CONSUME_QUEUE) and read from the broker's log
(VIEW_MESSAGE_BY_ID), which counts for no metric of the broker and creates nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orderly.client.pipeline import Question
from orderly.errors import BrokerError, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.backlog.reading import GroupReading, Head, Scan
from orderly.monitoring.collecting.asking import Asking
from orderly.monitoring.collecting.lagging import Place, head_offset
from orderly.ordering.latest import put_latest
from orderly.protocol.backlog_bodies import ConsumeQueue, decode_consume_queue
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.query_headers import QueryConsumeQueue, ViewMessage
from orderly.protocol.queue_news import queue_news
from orderly.protocol.stored_message import decode_messages

_MOST = 1000  # heads that are kept; of one more, the one read longest ago is forgotten


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets of a queue to read: `count` from `start` on, fewer at the queue's end."""

    queue: MessageQueue
    start: int
    count: int = 1


Found = tuple[ReceivedMessage | OrderlyError, ...]
"""The messages of a stretch, in their order; an error in the place of one that cannot be read."""


def read_stretches(asking: Asking, stretches: Sequence[Stretch]) -> list[Found | OrderlyError]:
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


def _where(each: Stretch) -> Question[ConsumeQueue | None]:
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


def read_heads(asking: Asking, places: Sequence[Place]) -> dict[Place, Head | None]:
    """Read the heads of queues; None: the broker does not have it. Without an answer: left out."""
    found = read_stretches(asking, [Stretch(place.queue, place.offset) for place in places])
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
    """Heads with what members of ours tell of them: how often they were tried, how they fail."""
    known = dict(heads)
    for info in reading.running.values():
        for queue, news in queue_news(info).items():
            head = known.get(queue)
            if head is not None and head.offset == news.offset:
                known[queue] = replace(head, attempts=news.attempts, fingerprint=news.reason)
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

    def knows(self, place: Place) -> bool:
        """Whether it was read, or the broker was found not to have it."""
        return (place.group, place.queue) in self._known

    @property
    def read(self) -> dict[tuple[str, MessageQueue], Head]:
        """Those that could be read, by group and queue."""
        return {place: head for place, (_, head) in self._known.items() if head is not None}

    def ask(self, asking: Asking, places: Sequence[Place]) -> None:
        """Read some heads."""
        for place, head in read_heads(asking, places).items():
            put_latest(self._known, (place.group, place.queue), (place.offset, head), _MOST)
