"""What a member of a group tells when it is asked: running info, queues, a direct delivery.

An administrator asks a broker, which asks the member on the connection of its heartbeat and
relays the answer as it is. Times are seconds since the epoch, whole milliseconds on the wire; 0.0
where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode
from orderly.protocol.heartbeat import Subscription, subscription_from_json, subscription_to_json
from orderly.protocol.java_json import (
    as_object,
    bool_in,
    dumps,
    int_in,
    load_object,
    member_in,
    natural_in,
    natural_or_none,
    number_in,
    object_in,
    objects_in,
    queue_table,
    queue_table_in,
    text_in,
    time_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunningInfo:
    """What a member is doing (answered by a RunningInfo), with its threads' stacks or without."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectly:
    """Have a member consume one message now (answered by a DirectResult).

    The broker finds the message by its offset id `msg_id`, puts it into the body as stored and
    adds its own name.
    """

    code: ClassVar[RequestCode] = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = None


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
        user: what it reports besides, by name (userConsumerInfo); of ours see `queue_reports`.
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


# --- what our members tell of each queue beyond what Java's do ------------------------------------
# It travels as one small JSON text a queue in `RunningInfo.user`, which `mqadmin consumerStatus`
# prints. Bounded, and without anything from a message but its key: many queues may be in trouble
# at once, and whoever may ask a broker may read it.


VERSION = 1
MOST_QUEUES = 64
LONGEST = 120  # characters of a key or a word
LONGEST_REASON = 300  # characters
_PREFIX = "orderly "


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """One queue of a member of ours.

    Attributes:
        why: what it does or waits for: a name of `ordering.explain.Why`.
        offset: of its first message that is not finished; None: not known.
        key: of that message, as text; None: it has none, or there is no message.
        attempts: how often that message was tried, the present try included.
        failing_for: seconds since it failed first; None: it has not failed.
        fingerprint: digest of its last failure.
        reason: the same for people: classes, places and words of the code, nothing of the message.
        seconds: for how long its handler runs, or for how much longer it waits; None: neither.
        parked: keys of the queue that are set aside.
    """

    why: str
    offset: int | None = None
    key: str | None = None
    attempts: int = 0
    failing_for: float | None = None
    fingerprint: str | None = None
    reason: str | None = None
    seconds: float | None = None
    parked: int = 0


def report_texts(reports: Iterable[tuple[MessageQueue, QueueReport]]) -> dict[str, str]:
    """Write the reports of the first MOST_QUEUES queues: at most 64 KiB, whatever they hold."""
    first = [pair for pair, _ in zip(reports, range(MOST_QUEUES), strict=False)]
    return {_name(queue): _written(report) for queue, report in first}


def queue_reports(info: RunningInfo) -> dict[MessageQueue, QueueReport]:
    """Read what a member reports of its queues; what is not ours, or broken, is left out."""
    found = {}
    for queue in info.queues if info.user else ():
        text = info.user.get(_name(queue))
        report = None if text is None else _read(text)
        if report is not None:
            found[queue] = report
    return found


def _name(queue: MessageQueue) -> str:
    return _PREFIX + str(queue)


def _written(report: QueueReport) -> str:
    fields: dict[str, Any] = {
        "v": VERSION,
        "why": report.why[:LONGEST],
        "offset": report.offset,
        "key": _cut(report.key, LONGEST),
        "attempts": report.attempts,
        "failingFor": _rounded(report.failing_for),
        "fingerprint": _cut(report.fingerprint, LONGEST),
        "reason": _cut(report.reason, LONGEST_REASON),
        "seconds": _rounded(report.seconds),
        "parked": report.parked,
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return _printable(dumps(known).decode())


def _printable(text: str) -> str:
    """JSON that acts on no terminal: mqadmin prints it as it is."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _read(text: str) -> QueueReport | None:
    try:
        fields = load_object(text.encode("utf-8", "replace"))
        if natural_in(fields, "v", 0) != VERSION:
            return None
        return QueueReport(
            why=text_in(fields, "why"),
            offset=natural_or_none(fields, "offset"),
            key=_text_or_none(fields, "key"),
            attempts=natural_in(fields, "attempts", 0),
            failing_for=_number_or_none(fields, "failingFor"),
            fingerprint=_text_or_none(fields, "fingerprint"),
            reason=_text_or_none(fields, "reason"),
            seconds=_number_or_none(fields, "seconds"),
            parked=natural_in(fields, "parked", 0),
        )
    except ProtocolError:
        return None


def _text_or_none(fields: dict[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else text_in(fields, name)


def _number_or_none(fields: dict[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else number_in(fields, name)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def _cut(text: str | None, most: int) -> str | None:
    """The start of a text; a lone surrogate, which no JSON takes, is replaced."""
    return None if text is None else text[:most].encode("utf-8", "replace").decode()


# --- a message consumed directly ------------------------------------------------------------------
# The body of the answer to ConsumeDirectly (ConsumeMessageDirectlyResult).


class DirectOutcome(StrEnum):
    """What the handler made of the message (CMResult); LATER is a suspend."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class DirectResult:
    """The answer.

    Attributes:
        result: what the handler returned, or how it failed.
        auto_commit: whether the handler left the commit to the consumer.
        remark: for people: an exception's text.
        spent: seconds the handler took; whole milliseconds on the wire.
    """

    result: DirectOutcome
    auto_commit: bool = True
    remark: str = ""
    spent: float = 0.0


def encode_direct_result(answer: DirectResult) -> bytes:
    """Write the answer; the consumer is marked as an ordered one."""
    return dumps(
        {
            "order": True,
            "autoCommit": answer.auto_commit,
            "consumeResult": answer.result,
            "remark": answer.remark,
            "spentTimeMills": round(answer.spent * 1000),
        }
    )


def decode_direct_result(body: bytes) -> DirectResult:
    """Read the answer of a member, ordered or not.

    Raises:
        ProtocolError: not such an answer.
    """
    fields = load_object(body)
    return DirectResult(
        member_in(fields, "consumeResult", DirectOutcome),
        bool_in(fields, "autoCommit", default=True),
        text_in(fields, "remark", ""),
        time_in(fields, "spentTimeMills"),
    )
