"""Statistics: offsets of topics and groups, ages, who consumes, and a broker's settings.

Times are seconds since the epoch, 0.0 where the broker knows none. What the numbers mean for a
backlog is the monitoring's business. No question makes a group, a subscription or a lock at the
broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from orderly.model import MessageQueue
from orderly.protocol.body import (
    INT,
    OBJECT,
    OBJECTS,
    QUEUE,
    JsonKind,
    Milliseconds,
    body_of,
    from_json,
    load_object,
    queues_to,
    read_body,
    to_json,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.java_json import dumps
from orderly.protocol.moments import milliseconds_of, moment_of


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

    min_offset: int = 0
    max_offset: int = 0
    last_update_time: Milliseconds = wire("lastUpdateTimestamp", default=0.0)


@dataclass(frozen=True, slots=True)
class OffsetPair:
    """A group's place in a queue (OffsetWrapper).

    A queue that was never committed shows `consumer_offset` 0, as does a real 0. `last_time` is
    when the last committed message was stored.
    """

    broker_offset: int = 0
    consumer_offset: int = 0
    pull_offset: int = 0
    last_time: Milliseconds = wire("lastTimestamp", default=0.0)


@dataclass(frozen=True, slots=True)
class ConsumerConnection:
    """One member of a group, as the broker sees it."""

    client_id: str
    address: str = wire("clientAddr", default="")
    language: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """A group's members and subscriptions on one broker; the settings are Java's enum names."""

    connections: tuple[ConsumerConnection, ...] = wire("connectionSet")
    consume_type: str = ""
    message_model: str = ""
    consume_from: str = wire("consumeFromWhere", default="")
    subscriptions: Mapping[str, Subscription] = wire("subscriptionTable", default_factory=dict)


def decode_topic_stats(body: bytes) -> dict[MessageQueue, TopicOffset]:
    """Read a topic's offsets (TopicStatsTable)."""
    if _USUAL_STATS.fullmatch(body):  # thrice as fast, and a scan reads hundreds of them
        return {
            MessageQueue(topic.decode(), broker.decode(), int(queue_id)): TopicOffset(
                int(minimum), int(maximum), moment_of(int(updated))
            )
            for broker, queue_id, topic, updated, maximum, minimum in _USUAL_ROW.findall(body)
        }
    return queues_to(body_of(TopicOffset)).at(load_object(body), "offsetTable")


_PAIRS = queues_to(body_of(OffsetPair))


def decode_consume_stats(body: bytes) -> dict[MessageQueue, OffsetPair]:
    """Read a group's offsets (ConsumeStats)."""
    return _PAIRS.at(load_object(body), "offsetTable")


def decode_connections(body: bytes) -> ConsumerConnections:
    """Read a group's members (ConsumerConnection)."""
    return read_body(ConsumerConnections, body)


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

    oldest_at: _Moment = wire("minTimeStamp")
    newest_at: _Moment = wire("maxTimeStamp")
    delay: _Delay = wire("delayTime")


def _moment(value: Any, what: str) -> float | None:
    ms = -1 if value is None else INT.read(value, what)
    return moment_of(ms) if ms >= 0 else None


def _delay(value: Any, what: str) -> float | None:
    ms = _NO_MESSAGE if value is None else INT.read(value, what)
    return max(ms, 0) / 1000 if ms < _NO_MESSAGE else None


def _ms(seconds: float | None) -> int:
    return -1 if seconds is None else milliseconds_of(seconds)


_Moment = Annotated[float | None, JsonKind(_moment, _ms)]
_Delay = Annotated[float | None, JsonKind(_delay, _ms)]


def decode_time_spans(body: bytes) -> dict[MessageQueue, TimeSpan]:
    """Read the ages in a topic's queues; those that can only be read are not among them.

    Raises:
        ProtocolError: not an answer to GetTimeSpans (QueryConsumeTimeSpanBody).
    """
    return {
        QUEUE.read(span.get("messageQueue"), "'messageQueue'"): from_json(TimeSpan, span)
        for span in OBJECTS.at(load_object(body), "consumeTimeSpanSet")
    }


def encode_topic_stats(offsets: Mapping[MessageQueue, TopicOffset]) -> bytes:
    """Write a topic's offsets (TopicStatsTable)."""
    # fields in the brokers' order, so that this is read with speed, too
    rows = {queue: dict(sorted(to_json(row).items())) for queue, row in offsets.items()}
    return dumps({"offsetTable": queues_to(OBJECT).write(rows), "topicPutTps": 0.0})


def encode_time_spans(spans: Mapping[MessageQueue, TimeSpan], now: float) -> bytes:
    """Write how old the messages of queues are at `now` (QueryConsumeTimeSpanBody)."""
    rows = [to_json(span) | {"messageQueue": QUEUE.write(q)} for q, span in spans.items()]
    for row in rows:
        # of a message that is not there the broker takes -1 ms for the time
        if row["delayTime"] < 0:
            row["delayTime"] = round(now * 1000) + 1
    return dumps({"consumeTimeSpanSet": rows})


def encode_consume_stats(offsets: Mapping[MessageQueue, OffsetPair]) -> bytes:
    """Write a group's offsets (ConsumeStats)."""
    return dumps({"consumeTps": 0.0, "offsetTable": _PAIRS.write(offsets)})


def encode_connections(info: ConsumerConnections) -> bytes:
    """Write a group's members and subscriptions (ConsumerConnection)."""
    return write_body(info)


# --- a broker's configuration: one `name=value` a line --------------------------------------------


OWN_RESETS = "useServerSideResetOffset"  # from 5.1 on, where it is off; on from 5.2 (BrokerConfig)
_RETENTION = "fileReservedTime"  # hours (Java: MessageStoreConfig)
_HOUR = 3600.0
_DIGITS = 6  # a century has less


def decode_settings(body: bytes) -> dict[str, str]:
    """Read all settings, by name; values are texts as the broker writes them."""
    pairs = (line.partition("=") for line in body.decode(errors="replace").splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def resets_by_itself(settings: Mapping[str, str]) -> bool:
    """Whether the broker resets a single queue, and members learn of it."""
    return settings.get(OWN_RESETS) == "true"


def retention_of(settings: Mapping[str, str]) -> float | None:
    """For how many seconds the broker keeps messages, if its disk is not full; None: unknown."""
    hours = settings.get(_RETENTION, "")
    known = hours.isascii() and hours.isdecimal() and len(hours) <= _DIGITS
    return int(hours) * _HOUR if known else None
