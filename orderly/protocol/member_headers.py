"""Header fields of requests about the members of a group, and of those that members get.

An administrator asks a broker, which asks the member on the connection of its heartbeat: a
running info and a message to consume directly are relayed as they are; offsets have a code of
their own for each half of the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOffset:
    """Set a group's offsets at one broker (ResetOffsetRequestHeader, to the broker).

    Without `queue_id` all queues of the topic go to `timestamp` (milliseconds since the epoch;
    -1: the maximum). With `queue_id` and `offset` that queue alone does; brokers that do not
    reset by themselves (useServerSideResetOffset) ignore both fields.
    """

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool = True
    queue_id: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMemberOffset:
    """Sent by the broker, one way: go on from the offsets in the body (`reset_bodies`)."""

    code: ClassVar[RequestCode] = RequestCode.RESET_CONSUMER_CLIENT_OFFSET

    topic: str
    group: str
    timestamp: int
    is_force: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GetMemberOffsets:
    """Sent by the broker: which offset comes next in each queue (answered by `reset_bodies`)."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetOffsetsOfMembers:
    """The administrator's half of `GetMemberOffsets`; without `client_id` of all members."""

    code: ClassVar[RequestCode] = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS

    topic: str
    group: str
    client_id: str | None = wire("clientAddr", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRunningInfo:
    """What a member is doing (answered by `running_info`), with its threads' stacks or without."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_RUNNING_INFO

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeDirectly:
    """Have a member consume one message now (answered by `direct_result`).

    The broker finds the message by its offset id `msg_id`, puts it into the body as stored and
    adds its own name.
    """

    code: ClassVar[RequestCode] = RequestCode.CONSUME_MESSAGE_DIRECTLY

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    topic: str | None = None
    broker_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfig:
    """A group's settings on one broker (`group_config`). A read that may create the group."""

    code: ClassVar[RequestCode] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete a group's settings on one broker (DeleteSubscriptionGroupRequestHeader)."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = False
