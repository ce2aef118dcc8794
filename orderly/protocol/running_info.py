"""What a member tells about itself when it is asked for its running info.

The body of the answer to GetRunningInfo (ConsumerRunningInfo). Times are seconds since the
epoch, whole milliseconds on the wire; 0.0 where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription, subscription_from_json, subscription_to_json
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    as_object,
    bool_in,
    int_in,
    load_object,
    number_in,
    object_in,
    objects_in,
    queue_table,
    queue_table_in,
    text_in,
    time_in,
)


class RunningProperty(StrEnum):
    """Names of properties that Java's tools read.

    They fail without the START_TIMESTAMP (milliseconds) and the CONSUME_TYPE (a ConsumeType).
    """

    NAME_SERVERS = "PROP_NAMESERVER_ADDR"
    THREADS = "PROP_THREADPOOL_CORE_SIZE"
    ORDERLY = "PROP_CONSUMEORDERLY"
    CONSUME_TYPE = "PROP_CONSUME_TYPE"
    CLIENT_VERSION = "PROP_CLIENT_VERSION"
    START_TIMESTAMP = "PROP_CONSUMER_START_TIMESTAMP"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue that the member owns (ProcessQueueInfo).

    Attributes:
        commit_offset: the next to consume.
        cached_min, cached_max, cached_count, cached_mib: messages pulled and not yet handed out;
            their offsets, number and size in whole MiB.
        in_hand_min, in_hand_max, in_hand_count: messages handed out and not yet committed.
        locked: whether the broker's lock of the queue is held.
        try_unlock_times: how often giving the lock back was tried in vain.
        last_lock_time: when the lock was last obtained or renewed; 0.0 if that is not told.
        dropped: whether the queue is on its way to another member.
        last_pull_time, last_consume_time: when the last pull and the last handler call began.
    """

    commit_offset: int = 0
    cached_min: int = 0
    cached_max: int = 0
    cached_count: int = 0
    cached_mib: int = 0
    in_hand_min: int = 0
    in_hand_max: int = 0
    in_hand_count: int = 0
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_time: float = 0.0
    dropped: bool = False
    last_pull_time: float = 0.0
    last_consume_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStatus:
    """How fast a topic goes (ConsumeStatus).

    Attributes:
        pull_rt, consume_rt: milliseconds a pull and a handler call take, on average.
        pull_tps, consume_ok_tps, consume_failed_tps: messages a second.
        consume_failed_messages: how many failed within the last hour.
    """

    pull_rt: float = 0.0
    pull_tps: float = 0.0
    consume_rt: float = 0.0
    consume_ok_tps: float = 0.0
    consume_failed_tps: float = 0.0
    consume_failed_messages: int = 0


@dataclass(frozen=True, slots=True)
class RunningInfo:
    """A member's account of itself.

    Attributes:
        properties: settings and facts by name; those Java's tools need are RunningProperty's.
        subscriptions: its topics.
        queues: the queues it owns.
        topics: how fast each topic goes.
        jstack: the stacks of its threads, as text; "" if not asked for.
        user: what it tells besides, by name (userConsumerInfo); of ours see `queue_news`.
        pops: whether it takes messages by POP: then `queues` does not say what it has.
    """

    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...] = ()
    queues: Mapping[MessageQueue, QueueInfo] = field(default_factory=dict)
    topics: Mapping[str, TopicStatus] = field(default_factory=dict)
    jstack: str = ""
    user: Mapping[str, str] = field(default_factory=dict)
    pops: bool = False


# Attribute of QueueInfo, its name on the wire ("droped" is Java's spelling, see _GO_DROPPED).
_QUEUE_NUMBERS = {
    "commit_offset": "commitOffset",
    "cached_min": "cachedMsgMinOffset",
    "cached_max": "cachedMsgMaxOffset",
    "cached_count": "cachedMsgCount",
    "cached_mib": "cachedMsgSizeInMiB",
    "in_hand_min": "transactionMsgMinOffset",
    "in_hand_max": "transactionMsgMaxOffset",
    "in_hand_count": "transactionMsgCount",
    "try_unlock_times": "tryUnlockTimes",
}
_QUEUE_FLAGS = {"locked": "locked", "dropped": "droped"}
_GO_DROPPED = "dropped"
_QUEUE_TIMES = {
    "last_lock_time": "lastLockTimestamp",
    "last_pull_time": "lastPullTimestamp",
    "last_consume_time": "lastConsumeTimestamp",
}
# Attribute of TopicStatus, its name on the wire.
_RATES = {
    "pull_rt": "pullRT",
    "pull_tps": "pullTPS",
    "consume_rt": "consumeRT",
    "consume_ok_tps": "consumeOKTPS",
    "consume_failed_tps": "consumeFailedTPS",
}
_FAILED = "consumeFailedMsgs"


def encode_running_info(info: RunningInfo) -> bytes:
    """Write a member's account of itself, so that Java reads it."""
    fields = {
        "properties": dict(info.properties),
        "subscriptionSet": [subscription_to_json(data) for data in info.subscriptions],
        "mqTable": queue_table({q: _queue_to_json(state) for q, state in info.queues.items()}),
        "mqPopTable": {},
        "statusTable": {topic: _status_to_json(status) for topic, status in info.topics.items()},
        "userConsumerInfo": dict(info.user),
    }
    return dumps(fields | ({"jstack": info.jstack} if info.jstack else {}))


def decode_running_info(body: bytes) -> RunningInfo:
    """Read a member's account of itself, whatever language it is written in.

    Raises:
        ProtocolError: not such an account.
    """
    fields = load_object(body)
    properties = object_in(fields, "properties")
    statuses = object_in(fields, "statusTable")
    return RunningInfo(
        # Java's own values are texts, but its Properties may hold numbers and enums as well
        _texts(properties),
        tuple(map(subscription_from_json, objects_in(fields, "subscriptionSet"))),
        {
            queue: _queue_from_json(as_object(state, f"the state of {queue}"))
            for queue, state in queue_table_in(fields, "mqTable").items()
        },
        {
            topic: _status_from_json(as_object(status, f"the status of topic {topic!r}"))
            for topic, status in statuses.items()
        },
        text_in(fields, "jstack", ""),
        _texts(object_in(fields, "userConsumerInfo")),
        bool(object_in(fields, "mqPopTable")),
    )


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    return {name: value if isinstance(value, str) else str(value) for name, value in fields.items()}


def _queue_to_json(state: QueueInfo) -> dict[str, Any]:
    plain = {wire: getattr(state, name) for name, wire in (_QUEUE_NUMBERS | _QUEUE_FLAGS).items()}
    times = {wire: round(getattr(state, name) * 1000) for name, wire in _QUEUE_TIMES.items()}
    return plain | times


def _queue_from_json(fields: dict[str, Any]) -> QueueInfo:
    """Read a queue's state, of a member in Java, in Python, or in Go.

    Go's client (consumer.go, lockAll) does not note when it renewed a lock: what it has for that
    time is hours old on a member that is well.
    """
    values: dict[str, Any] = {
        **{name: int_in(fields, wire, 0) for name, wire in _QUEUE_NUMBERS.items()},
        **{name: bool_in(fields, wire) for name, wire in _QUEUE_FLAGS.items()},
        **{name: time_in(fields, wire) for name, wire in _QUEUE_TIMES.items()},
    }
    if _GO_DROPPED in fields:
        values |= {"dropped": bool_in(fields, _GO_DROPPED), "last_lock_time": 0.0}
    return QueueInfo(**values)


def _status_to_json(status: TopicStatus) -> dict[str, Any]:
    rates = {wire: getattr(status, name) for name, wire in _RATES.items()}
    return rates | {_FAILED: status.consume_failed_messages}


def _status_from_json(fields: dict[str, Any]) -> TopicStatus:
    rates: dict[str, Any] = {name: number_in(fields, wire) for name, wire in _RATES.items()}
    return TopicStatus(**rates, consume_failed_messages=int_in(fields, _FAILED, 0))
