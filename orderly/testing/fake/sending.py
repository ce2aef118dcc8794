"""Sends: one message or a batch, retries that become dead letters, delayed messages.

The checks and their order are SendMessageProcessor's.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

from orderly.errors import InvalidMessage
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX, is_retry_topic
from orderly.protocol import properties as names
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.moments import moment_of
from orderly.protocol.properties import MAX_PROPERTIES_BYTES, decode_properties
from orderly.protocol.send import SendMessage, decode_batch, unique_key
from orderly.protocol.topics import TopicConfig
from orderly.testing.fake import pulling
from orderly.testing.fake.exchange import Call, RequestRefused
from orderly.testing.fake.state import BrokerState, check_name
from orderly.testing.fake.store import LEVELS, SCHEDULE_TOPIC, NewMessage, Placed, level_of

MAX_BODY = 4 * 1024 * 1024  # bytes
_MAX_AUTO_QUEUES = 8
_HONOURS_LIMIT_SINCE = 121  # ordinal of release 3.4.9: the client's own retry limit counts
_REGION = {names.MSG_REGION: "DefaultRegion", names.TRACE_ON: "true"}
_NO_KEY: dict[str, str] = {}  # a batch has none of its own
_TOO_LONG = "the message is illegal: its body or its properties are too long"
_NO_SUCH_TOPIC = "topic[{}] not exist, apply first please!"


def send(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 310: one message, or a batch if the header says so."""
    return _send(state, call, batch=False)


def send_batch(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 320."""
    return _send(state, call, batch=True)


def _send(state: BrokerState, call: Call, *, batch: bool) -> RemotingCommand:
    header = call.read(SendMessage)
    if not call.command.body:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, "the body is empty")
    try:
        return _carry_out(state, call, header, batch=batch or bool(header.batch))
    except RequestRefused as refusal:
        return call.reply(refusal.code, refusal.remark, ext=_REGION)


def _carry_out(
    state: BrokerState, call: Call, header: SendMessage, *, batch: bool
) -> RemotingCommand:
    config = _topic_for(state, header)
    queue_id = header.queue_id
    if queue_id < 0:  # the broker's choice; by the body, so that a run can be repeated
        queue_id = zlib.crc32(call.command.body) % max(config.write_queues, 1)
    if batch:
        return _store_batch(state, call, header, queue_id)
    message = _message(state, call, header, queue_id)
    placed = _place(state, message, call.now)
    key = {"transactionId": message.properties[names.UNIQ_KEY]}
    return _reply(call, queue_id, [placed], key)


def _topic_for(state: BrokerState, header: SendMessage) -> TopicConfig:
    check_name(header.topic)
    config = state.topics.get(header.topic) or _made_for(state, header)
    if config.order and not state.permission & 2:
        remark = f"broker {state.name} does not take messages"
        raise RequestRefused(ResponseCode.NO_PERMISSION, remark)
    if header.queue_id >= max(config.read_queues, config.write_queues):
        remark = f"request queueId[{header.queue_id}] is illegal"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, remark)
    return config


def _made_for(state: BrokerState, header: SendMessage) -> TopicConfig:
    if is_retry_topic(header.topic):
        return state.ensure_topic(header.topic)
    if state.enabled("autoCreateTopicEnable"):
        queues = min(header.default_topic_queue_nums, _MAX_AUTO_QUEUES)
        return state.ensure_topic(header.topic, queues)
    raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, _NO_SUCH_TOPIC.format(header.topic))


def _message(state: BrokerState, call: Call, header: SendMessage, queue_id: int) -> NewMessage:
    properties = _properties(header.properties or "")
    topic = header.topic
    if is_retry_topic(topic) and _is_dead(state, call, header):
        topic, queue_id = DEAD_PREFIX + topic.removeprefix(RETRY_PREFIX), 0
        state.ensure_topic(topic)
        properties[names.DELAY] = "-1"
    if not properties.get(names.UNIQ_KEY):
        properties[names.UNIQ_KEY] = _new_key(state, call.now)
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=call.command.body,
        properties=_with_ours(state, properties),
        born_time=moment_of(header.born_timestamp),
        born_host=call.peer,
        flag=header.flag,
        sys_flag=header.sys_flag,
        reconsume_times=header.reconsume_times or 0,
    )


def _properties(text: str) -> dict[str, str]:
    """Read properties; those too long for a message are refused as such."""
    data = text.encode("utf-8", "replace")
    if len(data) > MAX_PROPERTIES_BYTES:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, _TOO_LONG)
    return decode_properties(data)


def _is_dead(state: BrokerState, call: Call, header: SendMessage) -> bool:
    """Over the limit, or of a group that holds a lock: ordered messages are not retried so."""
    group = header.topic.removeprefix(RETRY_PREFIX)
    config = state.groups.find(group, create=state.enabled("autoCreateSubscriptionGroup"))
    if config is None:
        remark = f"subscription group not exist, {group}"
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
    limit = config.retry_max_times
    if call.command.version >= _HONOURS_LIMIT_SINCE and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    over = (header.reconsume_times or 0) > limit
    return over or state.locks.any_live(group, call.now)


def _with_ours(state: BrokerState, properties: dict[str, str]) -> dict[str, str]:
    return properties | _REGION | {names.CLUSTER: state.name_server.cluster}


def _new_key(state: BrokerState, now: float) -> str:
    return unique_key(b"\x00" * 16, 0, 0, now, state.store.count)


def _store_batch(
    state: BrokerState, call: Call, header: SendMessage, queue_id: int
) -> RemotingCommand:
    if is_retry_topic(header.topic):
        remark = f"batch request does not support retry group {header.topic}"
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, remark)
    messages = [
        NewMessage(
            topic=header.topic,
            queue_id=queue_id,
            body=member.body,
            properties=_properties(member.properties),  # a broker adds nothing to these
            born_time=moment_of(header.born_timestamp),
            born_host=call.peer,
            flag=member.flag,
            sys_flag=header.sys_flag,
            reconsume_times=header.reconsume_times or 0,
        )
        for member in decode_batch(call.command.body)
    ]
    if any(len(message.body) > MAX_BODY for message in messages):
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, _TOO_LONG)
    placed = [_put(state, message, call.now) for message in messages]
    return _reply(call, queue_id, placed)


def _place(state: BrokerState, message: NewMessage, now: float) -> Placed:
    """Store a message in its queue; a delayed one in the schedule's until its time."""
    level = level_of(message.properties.get(names.DELAY))
    if level == 0:
        return _put(state, message, now)
    origin = {names.REAL_TOPIC: message.topic, names.REAL_QUEUE_ID: str(message.queue_id)}
    later = replace(message, properties={**message.properties, **origin})
    placed = _put(state, replace(later, topic=SCHEDULE_TOPIC, queue_id=level - 1), now)
    state.delays.add(later, now + LEVELS[level - 1])
    return placed


def deliver_delayed(state: BrokerState, now: float) -> None:
    """Put what is due into its queue."""
    for message in state.delays.take(now):
        _put(state, message, now)


def _put(state: BrokerState, message: NewMessage, now: float) -> Placed:
    if len(message.body) > MAX_BODY:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, _TOO_LONG)
    try:
        placed = state.store.put(message, now)
    except InvalidMessage as error:
        raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, _TOO_LONG) from error
    pulling.wake(state, message.topic, message.queue_id, placed.tag_code, now)
    return placed


def _reply(
    call: Call, queue_id: int, placed: list[Placed], key: dict[str, str] = _NO_KEY
) -> RemotingCommand:
    ext = {
        "msgId": ",".join(place.offset_id for place in placed),
        "queueId": str(queue_id),
        "queueOffset": str(placed[0].queue_offset),
    }
    return call.reply(ext=ext | _REGION | key)
