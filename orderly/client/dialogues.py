"""Performs the calls that dialogues (`ordering.broker_calls`) yield, by requests to the brokers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from orderly.client.broker import BrokerCalls, PullQuery, PullStatus
from orderly.errors import GroupNotFound, ProtocolError, ReplyTooLarge
from orderly.log import get_logger, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import (
    AppendRecord,
    Call,
    HasOffsets,
    LockQueues,
    MaxOffset,
    MinOffset,
    OffsetAtTime,
    OffsetReset,
    ParkedRead,
    Peek,
    Peeked,
    QueryOffset,
    QueueEnds,
    ReadParked,
    ReadRecords,
    RecordsRead,
    SaveOffset,
    UnlockQueues,
)
from orderly.ordering.state_records import BLOCK
from orderly.protocol import properties as names
from orderly.protocol.ext import of_queue, to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import ALL_TAGS, Subscription
from orderly.protocol.park_record import PARKED, ParkMessage, park_request
from orderly.protocol.record_format import Seal, without_content
from orderly.protocol.send import SendMessage
from orderly.protocol.state_record import record_kind
from orderly.protocol.statistics import TopicOffset


def performer(group: str, brokers: BrokerCalls, secrets: str = "") -> Callable[[Call], Any]:
    """Return the function that answers calls for one group.

    It is thread-safe, blocks for up to a request's time-out and raises OrderlyError when there is
    no answer or one that says no.

    Args:
        group: as the broker names it.
        brokers: asks them.
        secrets: `ClientConfig.record_secrets`.
    """
    seal = Seal(group, secrets)
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: brokers.lock_queues(group, call.broker_name, call.queues),
        UnlockQueues: lambda call: brokers.unlock_queues(group, call.broker_name, call.queues),
        QueryOffset: lambda call: brokers.query_offset(group, call.queue),
        HasOffsets: lambda call: brokers.has_offsets(group, call.queues),
        SaveOffset: lambda call: save_offset(brokers, group, call),
        AppendRecord: lambda call: append_record(brokers, group, seal, call),
        ReadRecords: lambda call: read_records(brokers, group, seal, call),
        ReadParked: lambda call: read_parked(brokers, group, seal, call),
        **positions(brokers, group),
    }
    return lambda call: table[type(call)](call)


def positions(brokers: BrokerCalls, group: str) -> dict[type[Call], Callable[[Any], Any]]:
    """How a broker answers the calls that ask for a position in the log."""
    return {
        Peek: lambda call: peek(brokers, group, call),
        QueueEnds: lambda call: queue_ends(brokers, group, call),
        MinOffset: lambda call: brokers.min_offset(call.queue),
        MaxOffset: lambda call: brokers.max_offset(call.queue),
        OffsetAtTime: lambda call: brokers.search_offset(call.queue, call.moment.timestamp()),
    }


def save_offset(brokers: BrokerCalls, group: str, call: SaveOffset) -> None:
    """Commit an offset.

    A broker refuses the first one of a group that it does not know, and makes it with a pull. With
    each heartbeat, too; but behind a proxy only one broker of a cluster learns of the group so.

    Raises:
        OrderlyError: no answer, or one that says no.
    """
    try:
        brokers.update_offset(group, call.queue, call.offset)
    except GroupNotFound:
        peek(brokers, group, Peek(call.queue, call.offset))
        brokers.update_offset(group, call.queue, call.offset)


def peek(brokers: BrokerCalls, group: str, call: Peek) -> Peeked:
    """Look at one message by a pull, which every broker and proxy answers.

    Raises:
        OffsetReset: an operator has reset the group's offset; this pull's reply says so.
        OrderlyError: no answer, or one that says no; TopicNotFound where there is no such topic.
    """
    query = PullQuery(group, call.queue, call.offset, 1, Subscription(call.queue.topic), 0.0)
    try:
        reply = brokers.pull_now(query, master=True)
    except (ProtocolError, ReplyTooLarge):  # there is a message, and it cannot be read
        return Peeked(None, call.offset + 1)
    if reply.status is PullStatus.OFFSET_ILLEGAL and (
        reply.min_offset <= call.offset < reply.max_offset
    ):
        raise OffsetReset(call.queue, reply.next_offset)
    first = next(iter(reply.messages), None)
    found = first is not None and first.queue_offset == call.offset
    stored_at = round(first.store_time * 1000) if first is not None and found else None
    return Peeked(stored_at, reply.max_offset)


def queue_ends(brokers: BrokerCalls, group: str, call: QueueEnds) -> dict[MessageQueue, Peeked]:
    """Look at the last message of each queue: one request, or two a queue where it must be.

    Raises:
        OffsetReset: an operator has reset the group's offset; a pull's reply says so.
        OrderlyError: no answer, or one that says no; TopicNotFound where there is no such topic.
    """
    stats = brokers.topic_stats(call.queues[0])
    return {
        queue: _told_end(stats[queue]) if queue in stats else _found_end(brokers, group, queue)
        for queue in call.queues
    }


def _told_end(told: TopicOffset) -> Peeked:
    there = told.last_update_time > 0  # of a queue that is empty by now the time is not known
    return Peeked(round(told.last_update_time * 1000) if there else None, told.max_offset)


def _found_end(brokers: BrokerCalls, group: str, queue: MessageQueue) -> Peeked:
    end = brokers.max_offset(queue)
    if end == 0:
        return Peeked(None, end)
    last = peek(brokers, group, Peek(queue, end - 1))
    return Peeked(last.stored_at, end)


# --- records of the state topic, messages of the park topic ---------------------------------------
# Tools show them like other messages. What has no seal where it needs one is read as damaged; the
# rules for that hold.


_log = get_logger("orderly.consumer")
_WAIT = 5.0  # seconds the broker may wait for a record; it usually comes within milliseconds


def append_record(brokers: BrokerCalls, group: str, seal: Seal, call: AppendRecord) -> int:
    """Store a record on the queue's master; returns its queue offset.

    Its tag is its kind and its key the group, so that it can be found with any tool. A message
    with weaker durability (its disk or its slave was slow) is stored, as for a producer.

    Raises:
        OrderlyError: no answer, or one that says no. It may be stored without an answer.
    """
    properties = {names.TAGS: record_kind(call.body), names.KEYS: group, names.WAIT: "true"}
    properties = seal.put_on(call.queue, properties, call.body)
    header = SendMessage(
        producer_group=group,
        **of_queue(call.queue),
        born_timestamp=int(time.time() * 1000),
        properties=names.encode_properties(properties),
    )
    command = request(header.code, to_ext(header), call.body)
    return brokers.send_now(call.queue, command).queue_offset


def read_records(brokers: BrokerCalls, group: str, seal: Seal, call: ReadRecords) -> RecordsRead:
    """Read one block of records from the queue's master.

    One whose body cannot be read is none: what is not understood is damaged.

    Raises:
        OrderlyError: no answer, one that says no, or messages that break the format.
    """
    result = brokers.pull_now(_query(group, call, Subscription(call.queue.topic)))
    believed = [_believed(seal, call, message) for message in result.messages]
    records = tuple((message.queue_offset, message.raw_body) for message in believed)
    stored_at = max((round(message.store_time * 1000) for message in result.messages), default=0)
    return RecordsRead(records, result.next_offset, result.min_offset, stored_at)


def append_parked(
    brokers: BrokerCalls, group: str, seal: Seal, queue: MessageQueue, message: ParkMessage
) -> int:
    """Store a message on the park queue's master; returns its position.

    The seal of what is not a parked message also says the queue's newest position.

    Raises:
        OrderlyError: no answer, or one that says no. It may be stored without an answer.
    """
    newest = None
    if seal.signs and PARKED not in message.properties:
        newest = brokers.max_offset(queue) - 1
    command = park_request(group, queue, message, time.time(), seal=seal, newest=newest)
    return brokers.send_now(queue, command).queue_offset


def read_parked(brokers: BrokerCalls, group: str, seal: Seal, call: ReadParked) -> ParkedRead:
    """Read one block of messages from the park queue's master.

    Raises:
        OrderlyError: no answer, one that says no, or messages that break the format.
    """
    wanted = Subscription.from_expression(call.queue.topic, call.tag or ALL_TAGS, 0)
    result = brokers.pull_now(_query(group, call, wanted))
    found = [message for message in result.messages if wanted.matches(message.tags)]
    messages = tuple(_believed(seal, call, message) for message in found)
    unsealed = sum(
        PARKED in one.properties and PARKED not in other.properties
        for one, other in zip(found, messages, strict=True)
    )
    return ParkedRead(messages, result.next_offset, result.min_offset, unsealed)


def _believed(
    seal: Seal, call: ReadRecords | ReadParked, message: ReceivedMessage
) -> ReceivedMessage:
    if seal.accepts(call.queue, message):
        return message
    at = where(seal.group, call.queue) | {"offset": message.queue_offset}
    _log.warning("record.not_believed", **at)
    return without_content(message)


def _query(group: str, call: ReadRecords | ReadParked, wanted: Subscription) -> PullQuery:
    return PullQuery(
        group=group,
        queue=call.queue,
        offset=call.offset,
        max_messages=BLOCK,
        subscription=wanted,
        suspend=_WAIT if call.wait else 0.0,
    )
