"""Header fields of the requests a producer and a consumer make, and of their replies.

Names are Java's in snake_case; the wire names follow from them (`ext`). Headers of topic and
group administration are in `admin_headers`, those about members in `member_headers`; all are
imported from here. Requests without fields (heartbeat, lock, unlock) have no class: everything
is in their body.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import ClassVar

from orderly.protocol.admin_headers import (
    CreateTopic,
    DeleteTopicInBroker,
    DeleteTopicInNameServer,
    GetConsumerConnections,
    GetConsumeStats,
    GetTopicConfig,
    GetTopicStats,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import from_ext, to_ext, wire
from orderly.protocol.member_headers import (
    ConsumeDirectly,
    GetGroupConfig,
    GetMemberOffsets,
    GetOffsetsOfMembers,
    GetRunningInfo,
    ResetMemberOffset,
    ResetOffset,
)

__all__ = [
    "ConsumeDirectly",
    "CreateTopic",
    "DeleteTopicInBroker",
    "DeleteTopicInNameServer",
    "GetConsumeStats",
    "GetConsumerConnections",
    "GetConsumerList",
    "GetGroupConfig",
    "GetMaxOffset",
    "GetMemberOffsets",
    "GetMinOffset",
    "GetOffsetsOfMembers",
    "GetRouteInfo",
    "GetRunningInfo",
    "GetTopicConfig",
    "GetTopicStats",
    "HeartbeatReply",
    "NotifyConsumerIdsChanged",
    "OffsetReply",
    "PullFlag",
    "PullMessage",
    "PullReply",
    "QueryConsumerOffset",
    "ResetMemberOffset",
    "ResetOffset",
    "SearchOffset",
    "SendBatch",
    "SendMessage",
    "SendReply",
    "UnregisterClient",
    "UpdateConsumerOffset",
    "from_ext",
    "to_ext",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage:
    """One message (SendMessageRequestHeaderV2); the body is the payload, maybe compressed.

    `born_timestamp` is milliseconds since the epoch. `default_topic` is the topic whose settings
    an automatically created one takes.
    """

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE_V2

    producer_group: str = wire("a")
    topic: str = wire("b")
    default_topic: str = wire("c", default="TBW102")
    default_topic_queue_nums: int = wire("d", default=4)
    queue_id: int = wire("e")
    sys_flag: int = wire("f", default=0)
    born_timestamp: int = wire("g")
    flag: int = wire("h", default=0)
    properties: str | None = wire("i", default=None)
    reconsume_times: int | None = wire("j", default=None)
    unit_mode: bool | None = wire("k", default=None)
    max_reconsume_times: int | None = wire("l", default=None)
    batch: bool | None = wire("m", default=None)
    broker_name: str | None = wire("n", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBatch(SendMessage):
    """Several messages for one queue; the body is what `outgoing.encode_batch` makes."""

    code: ClassVar[RequestCode] = RequestCode.SEND_BATCH_MESSAGE

    batch: bool | None = wire("m", default=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReply:
    """Where the message was stored.

    For a batch `msg_id` holds all ids, joined by commas, and `queue_offset` is the first one's;
    the others follow without a gap.
    """

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None


class PullFlag(IntFlag):
    """Bits of a pull's `sys_flag` (PullSysFlag in Java)."""

    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PullMessage:
    """Messages of one queue from an offset on; the reply's body is `stored_message`'s business.

    With PullFlag.SUSPEND the broker holds an empty pull up to `suspend_timeout_millis`. With
    PullFlag.SUBSCRIPTION the filter is this request's, else the one of the group's heartbeat.
    """

    code: ClassVar[RequestCode] = RequestCode.PULL_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
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
class QueryConsumerOffset:
    """The group's stored offset.

    Only with `set_zero_if_not_found=False` is "none stored" (code 22) told apart from 0.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConsumerOffset:
    """Store the group's offset. The broker takes any value from anybody."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMaxOffset:
    """The offset the queue's next message gets; 0 for a queue that does not exist."""

    code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: int
    committed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMinOffset:
    """The offset of the queue's oldest message; 0 for a queue that does not exist."""

    code: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOffset:
    """The offset at a time (milliseconds since the epoch).

    `boundary_type` "lower" is the first message stored at or after it, "upper" the last one
    stored at or before it.
    """

    code: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReply:
    """The reply to every question about one offset."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfo:
    """A topic's route, asked of a name server; the body is read by `bodies.decode_route`."""

    code: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetConsumerList:
    """The client ids of a group's members, as the asked broker sees them."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterClient:
    """Ends the membership of the connection's client. Locks stay."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_CLIENT

    client_id: str = wire("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyConsumerIdsChanged:
    """Sent by the broker, one way: the group's members or topics changed."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReply:
    """What the broker makes of a heartbeat; old brokers send neither field."""

    is_support_heart_beat_v2: bool | None = wire("IS_SUPPORT_HEART_BEAT_V2", default=None)
    is_sub_change: bool | None = wire("IS_SUB_CHANGE", default=None)
