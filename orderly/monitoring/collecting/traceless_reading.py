"""Messages read without a trace: no group, no subscription, no pull.

A place in a queue is looked up in its index (QUERY_CONSUME_QUEUE) and read from the broker's log
(VIEW_MESSAGE_BY_ID), which counts for no metric of the broker and creates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderly.client.pipeline import Question
from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.collecting.questions import Asking
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.pull import ConsumeQueue, QueryConsumeQueue, ViewMessage, decode_consume_queue
from orderly.protocol.stored_message import decode_messages


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
        if found is None:  # the broker reads any bytes there
            raise ProtocolError(f"at offset {offset} of {queue} another message is stored")
        return found

    header = ViewMessage(offset=physical)
    what = f"the message at offset {offset} of {queue}"
    return Question(request(header.code, to_ext(header)), read, what)
