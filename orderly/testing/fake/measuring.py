"""What a backlog is measured by: all committed offsets, ages of messages, places in the log."""

from __future__ import annotations

from orderly.model import MessageQueue
from orderly.protocol.backlog_bodies import ConsumeQueue, Place, TimeSpan
from orderly.protocol.broker_bodies import (
    encode_committed,
    encode_consume_queue,
    encode_time_spans,
)
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.query_headers import GetTimeSpans, QueryConsumeQueue, ViewMessage
from orderly.testing.fake.exchange import Call, Refused
from orderly.testing.fake.queue_log import QueueLog
from orderly.testing.fake.state import BrokerState


def all_offsets(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 43."""
    return call.reply(body=encode_committed(state.offsets.all()))


def time_spans(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 303. Neither group nor subscription are looked at, nor queues only to read."""
    header = call.read(GetTimeSpans)
    config = state.topics.get(header.topic)
    if config is None:
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    spans = {}
    for queue_id in range(config.write_queues):
        committed = state.offsets.stored(header.group, header.topic, queue_id)
        log = state.store.log(header.topic, queue_id)
        queue = MessageQueue(header.topic, state.name, queue_id)
        spans[queue] = _span(log, -1 if committed is None else committed, call.now)
    return call.reply(body=encode_time_spans(spans, call.now))


def _span(log: QueueLog, committed: int, now: float) -> TimeSpan:
    head = _stored_at(log, committed)
    delay = None if head is None else now - head
    return TimeSpan(
        _stored_at(log, log.min_offset),
        _stored_at(log, log.max_offset - 1),
        delay if committed < log.max_offset else 0.0,
    )


def _stored_at(log: QueueLog, offset: int) -> float | None:
    entry = log.entry(offset)
    return entry.store_ms / 1000 if entry else None


def consume_queue(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 321; a success without a body for an index that is not there."""
    header = call.read(QueryConsumeQueue)
    if not state.store.has_log(header.topic, header.queue_id):
        remark = f"{header.queue_id}@{header.topic} is not exist!"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    log = state.store.log(header.topic, header.queue_id)
    if log.entry(header.index) is None:
        return call.reply(remark=f"Index {header.index} is not exist!")
    entries = map(log.entry, range(header.index, header.index + header.count))
    places = tuple(Place(e.place, len(e.data), e.tag_code) for e in entries if e is not None)
    part = ConsumeQueue(log.min_offset, log.max_offset, places)
    return call.reply(body=encode_consume_queue(part))


def view_message(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 33. A real broker answers garbage for a place where no message begins."""
    place = call.read(ViewMessage).offset
    data = state.store.at_place(place)
    if data is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}")
    return call.reply(body=data)
