"""Statistics: offsets of topics and groups, ages, who consumes, and a broker's settings.

Times are seconds since the epoch, 0.0 where the broker knows none. What the numbers mean for a
backlog is the monitoring's business. No question makes a group, a subscription or a lock at the
broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode
from orderly.protocol.heartbeat import Subscription, subscription_from_json, subscription_to_json
from orderly.protocol.java_json import (
    as_object,
    dumps,
    int_in,
    load_object,
    object_in,
    objects_in,
    queue_from_json,
    queue_table,
    queue_table_in,
    queue_to_json,
    text_in,
    time_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicStats:
    """Minimum and maximum offset of each queue of a topic on one broker."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPIC_STATS_INFO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumeStats:
    """Offsets of a group on one broker, for one topic or for all it subscribes to."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUME_STATS

    consumer_group: str
    topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerConnections:
    """The members of a group, with addresses, as one broker sees them."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_CONNECTION_LIST

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimeSpans:
    """How old the messages of a topic are, and the first that a group has not finished.

    The broker checks neither that the group exists nor that it consumes the topic.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_TIME_SPAN

    topic: str
    group: str


# A topic's offsets exactly as a broker writes them, for names without escapes.
_NAME, _NUMBER = rb'"([!#-\[\]-~]*+)"', rb"(-?[0-9]{1,18})"
_ROW = (
    rb'\{"brokerName":%b,"queueId":%b,"topic":%b\}:'
    rb'\{"lastUpdateTimestamp":%b,"maxOffset":%b,"minOffset":%b\}'
) % (_NAME, _NUMBER, _NAME, _NUMBER, _NUMBER, _NUMBER)
_USUAL_ROW = re.compile(_ROW)
_USUAL_STATS = re.compile(
    rb'\{"offsetTable":\{%b(?:,%b)*+\},"topicPutTps":[0-9.E-]+\}' % (_ROW, _ROW)
)


@dataclass(frozen=True, slots=True)
class TopicOffset:
    """A queue's oldest offset, the offset its next message gets, and when it last grew."""

    min_offset: int
    max_offset: int
    last_update_time: float


@dataclass(frozen=True, slots=True)
class OffsetPair:
    """A group's place in a queue (OffsetWrapper).

    A queue that was never committed shows `consumer_offset` 0, as does a real 0. `last_time` is
    when the last committed message was stored.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int
    last_time: float


@dataclass(frozen=True, slots=True)
class ConsumerConnection:
    """One member of a group, as the broker sees it."""

    client_id: str
    address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """A group's members and subscriptions on one broker; the settings are Java's enum names."""

    connections: tuple[ConsumerConnection, ...]
    consume_type: str
    message_model: str
    consume_from: str
    subscriptions: Mapping[str, Subscription]


def decode_topic_stats(body: bytes) -> dict[MessageQueue, TopicOffset]:
    """Read a topic's offsets (TopicStatsTable)."""
    if _USUAL_STATS.fullmatch(body):  # thrice as fast, and a scan reads hundreds of them
        return {
            MessageQueue(topic.decode(), broker.decode(), int(queue_id)): TopicOffset(
                int(minimum), int(maximum), int(updated) / 1000
            )
            for broker, queue_id, topic, updated, maximum, minimum in _USUAL_ROW.findall(body)
        }
    return {
        queue: TopicOffset(
            int_in(offsets, "minOffset", 0),
            int_in(offsets, "maxOffset", 0),
            time_in(offsets, "lastUpdateTimestamp"),
        )
        for queue, offsets in _offset_table(body)
    }


def decode_consume_stats(body: bytes) -> dict[MessageQueue, OffsetPair]:
    """Read a group's offsets (ConsumeStats)."""
    return {
        queue: OffsetPair(
            int_in(offsets, "brokerOffset", 0),
            int_in(offsets, "consumerOffset", 0),
            int_in(offsets, "pullOffset", 0),
            time_in(offsets, "lastTimestamp"),
        )
        for queue, offsets in _offset_table(body)
    }


def _offset_table(body: bytes) -> list[tuple[MessageQueue, dict[str, Any]]]:
    table = queue_table_in(load_object(body), "offsetTable")
    return [(queue, as_object(offsets, "a queue's offsets")) for queue, offsets in table.items()]


def decode_connections(body: bytes) -> ConsumerConnections:
    """Read a group's members (ConsumerConnection)."""
    fields = load_object(body)
    table = object_in(fields, "subscriptionTable")
    return ConsumerConnections(
        connections=tuple(map(_connection, objects_in(fields, "connectionSet"))),
        consume_type=text_in(fields, "consumeType", ""),
        message_model=text_in(fields, "messageModel", ""),
        consume_from=text_in(fields, "consumeFromWhere", ""),
        subscriptions={
            topic: subscription_from_json(as_object(data, "a subscription"))
            for topic, data in table.items()
        },
    )


def _connection(fields: dict[str, Any]) -> ConsumerConnection:
    return ConsumerConnection(
        text_in(fields, "clientId"),
        text_in(fields, "clientAddr", ""),
        text_in(fields, "language", ""),
        int_in(fields, "version", 0),
    )


# An age of more than 31 years: the broker subtracted -1, its "no such message", from its clock.
_NO_MESSAGE = 10**12  # ms


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """How old the messages of a queue are, all by the broker's clock (QueueTimeSpan).

    Attributes:
        oldest_at, newest_at: when the first and the last message there were stored; None: there
            is none.
        delay: seconds since the first one that the group has not finished was stored; 0.0: it has
            finished all; None: the broker does not know, since the group never committed, or that
            message was deleted.
    """

    oldest_at: float | None
    newest_at: float | None
    delay: float | None


def decode_time_spans(body: bytes) -> dict[MessageQueue, TimeSpan]:
    """Read the ages in a topic's queues; those that can only be read are not among them.

    Raises:
        ProtocolError: not an answer to GetTimeSpans (QueryConsumeTimeSpanBody).
    """
    return {
        queue_from_json(span.get("messageQueue")): TimeSpan(
            _moment(span, "minTimeStamp"), _moment(span, "maxTimeStamp"), _delay(span)
        )
        for span in objects_in(load_object(body), "consumeTimeSpanSet")
    }


def _moment(span: dict[str, Any], name: str) -> float | None:
    ms = int_in(span, name, -1)
    return ms / 1000 if ms >= 0 else None


def _delay(span: dict[str, Any]) -> float | None:
    ms = int_in(span, "delayTime", _NO_MESSAGE)
    return max(ms, 0) / 1000 if ms < _NO_MESSAGE else None


def encode_topic_stats(offsets: Mapping[MessageQueue, TopicOffset]) -> bytes:
    """Write a topic's offsets (TopicStatsTable)."""
    rows = {
        queue: {
            "lastUpdateTimestamp": round(row.last_update_time * 1000),
            "maxOffset": row.max_offset,
            "minOffset": row.min_offset,
        }
        for queue, row in offsets.items()
    }
    return dumps({"offsetTable": queue_table(rows), "topicPutTps": 0.0})


def encode_time_spans(spans: Mapping[MessageQueue, TimeSpan], now: float) -> bytes:
    """Write how old the messages of queues are at `now` (QueryConsumeTimeSpanBody)."""
    return dumps({"consumeTimeSpanSet": [_span(q, span, now) for q, span in spans.items()]})


def _span(queue: MessageQueue, span: TimeSpan, now: float) -> dict[str, Any]:
    return {
        # of a message that is not there the broker takes -1 ms for the time
        "delayTime": round(now * 1000) + 1 if span.delay is None else round(span.delay * 1000),
        "maxTimeStamp": -1 if span.newest_at is None else round(span.newest_at * 1000),
        "messageQueue": queue_to_json(queue),
        "minTimeStamp": -1 if span.oldest_at is None else round(span.oldest_at * 1000),
    }


def encode_consume_stats(offsets: Mapping[MessageQueue, OffsetPair]) -> bytes:
    """Write a group's offsets (ConsumeStats)."""
    rows = {
        queue: {
            "brokerOffset": row.broker_offset,
            "consumerOffset": row.consumer_offset,
            "lastTimestamp": round(row.last_time * 1000),
            "pullOffset": row.pull_offset,
        }
        for queue, row in offsets.items()
    }
    return dumps({"consumeTps": 0.0, "offsetTable": queue_table(rows)})


def encode_connections(info: ConsumerConnections) -> bytes:
    """Write a group's members and subscriptions (ConsumerConnection)."""
    return dumps(
        {
            "connectionSet": [
                {
                    "clientAddr": member.address,
                    "clientId": member.client_id,
                    "language": member.language,
                    "version": member.version,
                }
                for member in info.connections
            ],
            "consumeFromWhere": info.consume_from,
            "consumeType": info.consume_type,
            "messageModel": info.message_model,
            "subscriptionTable": {
                topic: subscription_to_json(data) for topic, data in info.subscriptions.items()
            },
        }
    )


# --- a broker's configuration: one `name=value` a line --------------------------------------------


_RETENTION = "fileReservedTime"  # hours (Java: MessageStoreConfig)
_HOUR = 3600.0
_DIGITS = 6  # a century has less


def decode_settings(body: bytes) -> dict[str, str]:
    """Read all settings, by name; values are texts as the broker writes them."""
    pairs = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def retention_of(settings: Mapping[str, str]) -> float | None:
    """For how many seconds the broker keeps messages, if its disk is not full; None: not told."""
    hours = settings.get(_RETENTION, "")
    told = hours.isascii() and hours.isdecimal() and len(hours) <= _DIGITS
    return int(hours) * _HOUR if told else None
