"""What a member of a group answers when it is asked: running info, queues, a direct delivery.

An administrator asks a broker, which asks the member on the connection of its heartbeat and
relays the answer as it is. Times are seconds since the epoch, whole milliseconds on the wire; 0.0
means that no time is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from orderly.errors import ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.body import (
    BOOL,
    NATURAL,
    OBJECT,
    JsonKind,
    Milliseconds,
    Natural,
    from_json,
    known,
    load_object,
    read_body,
    to_json,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.java_json import dumps


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
        last_lock_time: when the lock was last obtained or renewed; 0.0 if that is not known.
        dropped: whether the queue is on its way to another member.
        last_pull_time, last_consume_time: when the last pull and the last handler call began.
    """

    commit_offset: int = 0
    cached_min: int = wire("cachedMsgMinOffset", default=0)
    cached_max: int = wire("cachedMsgMaxOffset", default=0)
    cached_count: int = wire("cachedMsgCount", default=0)
    cached_mib: int = wire("cachedMsgSizeInMiB", default=0)
    in_hand_min: int = wire("transactionMsgMinOffset", default=0)
    in_hand_max: int = wire("transactionMsgMaxOffset", default=0)
    in_hand_count: int = wire("transactionMsgCount", default=0)
    locked: bool = False
    try_unlock_times: int = 0
    last_lock_time: Milliseconds = wire("lastLockTimestamp", default=0.0)
    dropped: bool = wire("droped", default=False)  # Java's spelling
    last_pull_time: Milliseconds = wire("lastPullTimestamp", default=0.0)
    last_consume_time: Milliseconds = wire("lastConsumeTimestamp", default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConsumeStatus:
    """How fast a topic goes (ConsumeStatus).

    Attributes:
        pull_rt, consume_rt: milliseconds a pull and a handler call take, on average.
        pull_tps, consume_ok_tps, consume_failed_tps: messages a second.
        consume_failed_messages: how many failed within the last hour.
    """

    pull_rt: float = wire("pullRT", default=0.0)
    pull_tps: float = wire("pullTPS", default=0.0)
    consume_rt: float = wire("consumeRT", default=0.0)
    consume_ok_tps: float = wire("consumeOKTPS", default=0.0)
    consume_failed_tps: float = wire("consumeFailedTPS", default=0.0)
    consume_failed_messages: int = wire("consumeFailedMsgs", default=0)


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

    properties: Mapping[str, _AsText]
    subscriptions: tuple[Subscription, ...] = wire("subscriptionSet", default=())
    queues: Mapping[MessageQueue, _QueueState] = wire("mqTable", default_factory=dict)
    topics: Mapping[str, TopicConsumeStatus] = wire("statusTable", default_factory=dict)
    jstack: str = ""
    user: Mapping[str, _AsText] = wire("userConsumerInfo", default_factory=dict)
    pops: _NotEmpty = wire("mqPopTable", default=False)


def _queue_state(value: Any, what: str) -> QueueInfo:
    """Read a queue's state, of a member in Java, in Python, or in Go.

    Go's client (consumer.go, lockAll) does not note when it renewed a lock: what it has for that
    time is hours old on a member that is well.
    """
    state = from_json(QueueInfo, value, what)
    if "dropped" in value:
        state = replace(state, dropped=BOOL.at(value, "dropped", False), last_lock_time=0.0)
    return state


_QueueState = Annotated[QueueInfo, JsonKind(_queue_state, to_json)]
# Java's own values are texts, but its Properties may hold numbers and enums as well.
_AsText = Annotated[
    str, JsonKind(lambda value, _what: value if isinstance(value, str) else str(value))
]
_NotEmpty = Annotated[
    bool, JsonKind(lambda value, what: bool(OBJECT.read(value, what)), lambda _pops: {})
]


def encode_running_info(info: RunningInfo) -> bytes:
    """Write a member's account of itself, so that Java reads it."""
    fields = to_json(info)
    if not info.jstack:
        del fields["jstack"]  # Java prints a heading for it even if it is empty
    return dumps(fields)


def decode_running_info(body: bytes) -> RunningInfo:
    """Read a member's account of itself, written in any language.

    Raises:
        ProtocolError: not such an account.
    """
    return read_body(RunningInfo, body)


# --- what our members report of each queue beyond what Java's do ----------------------------------
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
        because: why that message is not given up, or not parked, yet; None: nobody said.
    """

    why: str
    offset: Natural | None = None
    key: str | None = None
    attempts: Natural = 0
    failing_for: float | None = None
    fingerprint: str | None = None
    reason: str | None = None
    seconds: float | None = None
    parked: Natural = 0
    because: str | None = None


def report_texts(reports: Iterable[tuple[MessageQueue, QueueReport]]) -> dict[str, str]:
    """Write the reports of the first MOST_QUEUES queues: at most 64 KiB, with any content."""
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
    bounded = replace(
        report,
        why=report.why[:LONGEST],
        key=_cut(report.key, LONGEST),
        failing_for=_rounded(report.failing_for),
        fingerprint=_cut(report.fingerprint, LONGEST),
        reason=_cut(report.reason, LONGEST_REASON),
        because=_cut(report.because, LONGEST),
        seconds=_rounded(report.seconds),
    )
    return _printable(dumps({"v": VERSION} | known(to_json(bounded))).decode())


def _printable(text: str) -> str:
    """JSON that acts on no terminal: mqadmin prints it as it is."""
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _read(text: str) -> QueueReport | None:
    try:
        fields = load_object(text.encode("utf-8", "replace"))
        return from_json(QueueReport, fields) if NATURAL.at(fields, "v", 0) == VERSION else None
    except ProtocolError:
        return None


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

    also: ClassVar = {"order": True}

    result: DirectOutcome = wire("consumeResult")
    auto_commit: bool = True
    remark: str = ""
    spent: Milliseconds = wire("spentTimeMills", default=0.0)


def encode_direct_result(answer: DirectResult) -> bytes:
    """Write the answer; the consumer is marked as an ordered one."""
    return write_body(answer)


def decode_direct_result(body: bytes) -> DirectResult:
    """Read the answer of a member, ordered or not.

    Raises:
        ProtocolError: not such an answer.
    """
    return read_body(DirectResult, body)
