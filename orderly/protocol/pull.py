"""To pull: headers, the check of a filter, and looks at the log: by place, and by message id.

Header names are Java's in snake_case; the wire names follow from them (`ext`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar

from orderly.protocol.body import read_body, write_body
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import QueueHeader, wire
from orderly.protocol.heartbeat import Subscription


class PullFlag(IntFlag):
    """Bits of a pull's `sys_flag` (PullSysFlag in Java)."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessage(QueueHeader):
    """Messages of one queue from an offset on; the reply's body is `stored_message`'s business.

    With PullFlag.SUSPEND the broker holds an empty pull up to `suspend_timeout_millis`. With
    PullFlag.SUBSCRIPTION the filter is this request's, else the one of the group's heartbeat.
    """

    code: ClassVar[RequestCode] = RequestCode.PULL_MESSAGE

    consumer_group: str
    queue_offset: int
    max_msg_nums: int = 32
    sys_flag: int = 0
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    subscription: str | None = None
    sub_version: int = 0
    expression_type: str | None = None
    max_msg_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PullReply:
    """Where to go on, and where the queue begins and ends; sent with codes 0, 19, 20 and 21."""

    suggest_which_broker_id: int
    next_begin_offset: int
    min_offset: int
    max_offset: int
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessage:
    """A message by its place in the broker's log (the last 16 digits of an offset id).

    The broker does not check that a message begins there: check what comes.
    """

    code: ClassVar[RequestCode] = RequestCode.VIEW_MESSAGE_BY_ID

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessage:
    """Messages of a topic by their id, in all its queues at the broker: the newest 32.

    A broker looks in its index, by hashes: the answer can hold messages with other ids. It indexes
    a message after it can be pulled, or never (messageIndexEnable). Times are milliseconds since
    the epoch, of storing. The reply's body is `stored_message`'s business.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_MESSAGE

    topic: str
    key: str
    max_num: int = 32
    begin_timestamp: int = 0
    end_timestamp: int
    by_id: bool = wire("_UNIQUE_KEY_QUERY", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueue:
    """Where the messages of a queue are in the broker's log: `count` of them from `index` on."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_QUEUE

    topic: str
    queue_id: int
    index: int
    count: int = 1


# --- whether a broker understands a filter --------------------------------------------------------
# The body of RequestCode.CHECK_CLIENT_CONFIG (CheckClientRequestBody). Brokers look only at
# expressions that are not tags.


@dataclass(frozen=True, slots=True)
class FilterCheck:
    """Who wants to subscribe to what."""

    client_id: str
    group: str
    subscription: Subscription = wire("subscriptionData")


def encode_filter_check(check: FilterCheck) -> bytes:
    """Write the question."""
    return write_body(check)


def decode_filter_check(body: bytes) -> FilterCheck:
    """Read the question.

    Raises:
        ProtocolError: not such a question.
    """
    return read_body(FilterCheck, body)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message is in the broker's log, for ViewMessage.

    `size` in bytes; `tags_code` is Java's hash of the tag, 0 without one.
    """

    also: ClassVar = {"eval": False}

    physical_offset: int = wire("physicOffset")
    size: int = wire("physicSize")
    tags_code: int = 0


@dataclass(frozen=True, slots=True)
class ConsumeQueue:
    """A part of a queue: its oldest offset, its next one, and the places that were asked for."""

    minimum: int = wire("minQueueIndex")
    maximum: int = wire("maxQueueIndex")
    entries: tuple[Place, ...] = wire("queueData")


def decode_consume_queue(body: bytes) -> ConsumeQueue | None:
    """Read the answer to QueryConsumeQueue (QueryConsumeQueueResponseBody).

    Returns:
        None: the index is below the minimum or not below the maximum (the answer is a success
        without a body). "eval": false in an entry means nothing: no group was asked about.

    Raises:
        ProtocolError: not such an answer.
    """
    return read_body(ConsumeQueue, body) if body else None


def encode_consume_queue(part: ConsumeQueue) -> bytes:
    """Write a part of a queue (QueryConsumeQueueResponseBody)."""
    return write_body(part)
