"""Offsets asked for, stored and reset; ages of messages; their places and ids in the log."""

from __future__ import annotations

from orderly.model import MessageQueue
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    ResetOffset,
    SearchOffset,
    UpdateConsumerOffset,
    encode_committed,
    encode_reset,
)
from orderly.protocol.pull import (
    ConsumeQueue,
    Place,
    QueryConsumeQueue,
    QueryMessage,
    ViewMessage,
    encode_consume_queue,
)
from orderly.protocol.statistics import (
    GetConsumeStats,
    GetTimeSpans,
    GetTopicStats,
    OffsetPair,
    TimeSpan,
    TopicOffset,
    encode_consume_stats,
    encode_time_spans,
    encode_topic_stats,
)
from orderly.testing.fake.exchange import Call, RequestRefused
from orderly.testing.fake.state import BrokerState
from orderly.testing.fake.store import QueueLog


def query_offset(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 14. A queue whose first message is there counts as "stored: 0" by default."""
    header = call.read(QueryConsumerOffset)
    topic, queue_id = header.topic, header.queue_id
    offset = state.offsets.stored(header.consumer_group, topic, queue_id)
    if offset is not None:
        return _offset(call, offset)
    if header.set_zero_if_not_found is not False and state.store.log(topic, queue_id).entry(0):
        return _offset(call, 0)
    raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, "Not found, maybe this group boot first")


def update_offset(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 15."""
    header = call.read(UpdateConsumerOffset)
    group, topic = header.consumer_group, header.topic
    if group not in state.groups:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
    if state.topics.get(topic) is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
    stored = state.offsets.commit(group, topic, header.queue_id, header.commit_offset)
    return call.reply(remark=None if stored else "Offset has been previously reset")


def max_offset(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 30."""
    header = call.read(GetMaxOffset)
    return _offset(call, state.store.log(header.topic, header.queue_id).max_offset)


def min_offset(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 31."""
    header = call.read(GetMinOffset)
    return _offset(call, state.store.open_log(header.topic, header.queue_id).min_offset)


def search_offset(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 29."""
    header = call.read(SearchOffset)
    upper = header.boundary_type == "upper"
    log = state.store.log(header.topic, header.queue_id)
    return _offset(call, log.at_time(header.timestamp, upper=upper))


def _offset(call: Call, offset: int) -> RemotingCommand:
    return call.reply(ext=to_ext(OffsetReply(offset=offset)))


def reset_offsets(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 222."""
    header = call.read(ResetOffset)
    config = state.topics.get(header.topic)
    if config is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {header.topic} does not exist")
    if header.group not in state.groups:
        remark = f"Group {header.group} does not exist"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    if header.queue_id is not None and header.queue_id >= 0:
        targets = {header.queue_id: _target(state, header, header.queue_id)}
    else:
        targets = {i: _at_time(state, header, i) for i in range(config.read_queues)}
    for queue_id, offset in targets.items():
        state.offsets.reset(header.group, header.topic, queue_id, offset)
    rows = {MessageQueue(header.topic, state.name, i): at for i, at in targets.items()}
    return call.reply(body=encode_reset(rows))


def _target(state: BrokerState, header: ResetOffset, queue_id: int) -> int:
    if header.offset is None or header.offset == -1:
        return _at_time(state, header, queue_id)
    log = state.store.log(header.topic, queue_id)
    if not log.min_offset <= header.offset <= log.max_offset + 1:
        remark = f"Target offset {header.offset} not in [{log.min_offset}-{log.max_offset}]"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
    return header.offset


def _at_time(state: BrokerState, header: ResetOffset, queue_id: int) -> int:
    log = state.store.log(header.topic, queue_id)
    return log.max_offset if header.timestamp < 0 else log.at_time(header.timestamp)


def topic_stats(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 202."""
    topic = call.read(GetTopicStats).topic
    config = state.topics.get(topic)
    if config is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    rows = {}
    for queue_id in range(max(config.read_queues, config.write_queues)):
        log = state.store.open_log(topic, queue_id)
        row = TopicOffset(log.min_offset, log.max_offset, _stored_at(state, topic, queue_id, -1))
        rows[MessageQueue(topic, state.name, queue_id)] = row
    return call.reply(body=encode_topic_stats(rows))


def consume_stats(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 208. With members online only what they subscribe to counts."""
    header = call.read(GetConsumeStats)
    group = header.consumer_group
    topics = {header.topic} if header.topic else state.offsets.topics_of(group)
    online = state.members.group(group)
    if online is not None and online.subscriptions:
        topics &= online.subscriptions.keys()
    rows = {}
    for config in filter(None, map(state.topics.get, topics)):
        for queue_id in range(config.read_queues):
            queue = MessageQueue(config.name, state.name, queue_id)
            rows[queue] = _pair(state, group, config.name, queue_id)
    return call.reply(body=encode_consume_stats(rows))


def _pair(state: BrokerState, group: str, topic: str, queue_id: int) -> OffsetPair:
    committed = state.offsets.stored(group, topic, queue_id) or 0
    return OffsetPair(
        state.store.log(topic, queue_id).max_offset,
        committed,
        max(committed, state.offsets.pulled(group, topic, queue_id)),
        _stored_at(state, topic, queue_id, committed - 1) if committed else 0.0,
    )


def _stored_at(state: BrokerState, topic: str, queue_id: int, offset: int) -> float:
    """When a message was stored; -1: the last one."""
    log = state.store.log(topic, queue_id)
    entry = log.entry(log.max_offset - 1 if offset < 0 else offset)
    return entry.store_ms / 1000 if entry else 0.0


# --- all committed offsets, ages of messages, places in the log -----------------------------------


def all_offsets(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 43."""
    return call.reply(body=encode_committed(state.offsets.all()))


def time_spans(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 303. Neither group nor subscription are looked at, nor queues only to read."""
    header = call.read(GetTimeSpans)
    config = state.topics.get(header.topic)
    if config is None:
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    spans = {}
    for queue_id in range(config.write_queues):
        committed = state.offsets.stored(header.group, header.topic, queue_id)
        log = state.store.log(header.topic, queue_id)
        queue = MessageQueue(header.topic, state.name, queue_id)
        spans[queue] = _time_span(log, -1 if committed is None else committed, call.now)
    return call.reply(body=encode_time_spans(spans, call.now))


def _time_span(log: QueueLog, committed: int, now: float) -> TimeSpan:
    head = _time_at(log, committed)
    delay = None if head is None else now - head
    return TimeSpan(
        _time_at(log, log.min_offset),
        _time_at(log, log.max_offset - 1),
        delay if committed < log.max_offset else 0.0,
    )


def _time_at(log: QueueLog, offset: int) -> float | None:
    entry = log.entry(offset)
    return entry.store_ms / 1000 if entry else None


def consume_queue(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 321; a success without a body for an index that is not there."""
    header = call.read(QueryConsumeQueue)
    if not state.store.has_log(header.topic, header.queue_id):
        remark = f"{header.queue_id}@{header.topic} is not exist!"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
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
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {place}"
        )
    return call.reply(body=data)


def query_message(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 12, for ids only: the newest messages of a topic that have one."""
    header = call.read(QueryMessage)
    if not header.by_id:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the fake broker has no index of keys")
    found = state.store.with_id(header.topic, header.key)
    times = range(header.begin_timestamp, header.end_timestamp + 1)
    entries = [entry for entry in found if entry.store_ms in times]
    if not entries:
        remark = "can not find message, maybe time range not correct"
        raise RequestRefused(ResponseCode.QUERY_NOT_FOUND, remark)
    newest = sorted(entries, key=lambda entry: entry.place)[-header.max_num :]
    return call.reply(body=b"".join([entry.data for entry in newest]))
