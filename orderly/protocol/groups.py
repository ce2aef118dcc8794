"""Consumer groups: their settings on a broker (SubscriptionGroupConfig), and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from orderly.protocol.body import (
    INT,
    OBJECT,
    TEXTS,
    JsonKind,
    Version,
    load_object,
    possible,
    read_body,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.java_json import dumps


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfig:
    """A group's settings on one broker (GroupConfig). A read that may create the group."""

    code: ClassVar[RequestCode] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete a group's settings on one broker (DeleteSubscriptionGroupRequestHeader).

    With `clean_offset` its offsets, too; brokers before 5.0 know that field as `remove_offset`.
    """

    code: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = False
    remove_offset: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOfTopic:
    """Which groups subscribe to a topic or have offsets in it."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfGroup:
    """In which topics a group has offsets."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPICS_BY_CONSUMER

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfigs:
    """One page of all groups' settings; as GetTopicConfigs, and whole without any field."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG

    group_seq: int
    max_group_num: int | None = None
    data_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """A group's settings; the defaults are those of a group that a broker creates on its own.

    Attributes:
        name: of the group.
        consume_enabled: False: pulls are refused.
        consume_from_min: whether a new group may start at the oldest message.
        broadcast_enabled: False: pulls of broadcasting members are refused.
        orderly: whether gRPC clients behind a proxy get messages in order; remoting clients
            decide that for themselves.
        retry_queues: queues of its %RETRY% topic.
        retry_max_times: retries of clients that send none of their own.
        notify_members_changed: whether members get a notice when others come and go.
        consume_timeout: seconds.
    """

    also: ClassVar = {"brokerId": 0, "whichBrokerWhenConsumeSlowly": 1}

    name: str = wire("groupName")
    consume_enabled: bool = wire("consumeEnable", default=True)
    consume_from_min: bool = wire("consumeFromMinEnable", default=True)
    broadcast_enabled: bool = wire("consumeBroadcastEnable", default=True)
    orderly: bool = wire("consumeMessageOrderly", default=False)
    retry_queues: int = wire("retryQueueNums", default=1)
    retry_max_times: int = 16
    notify_members_changed: bool = wire("notifyConsumerIdsChangedEnable", default=True)
    consume_timeout: _Minutes = wire("consumeTimeoutMinute", default=900.0)


_Minutes = Annotated[
    float,
    JsonKind(lambda value, what: INT.read(value, what) * 60.0, lambda seconds: round(seconds / 60)),
]


@dataclass(frozen=True, slots=True)
class GroupConfigs:
    """All groups of a broker by name, or a page of them; `version` is for the next page."""

    also: ClassVar[Mapping[str, Any]] = {"forbiddenTable": {}}

    groups: Mapping[str, GroupConfig] = wire("subscriptionGroupTable")
    version: Version = wire("dataVersion", demanded=True, default="")


def encode_group_config(config: GroupConfig) -> bytes:
    """Write the body that creates a group or replaces its settings, and what a broker answers."""
    return write_body(config)


def encode_group_configs(configs: Iterable[GroupConfig], version: Mapping[str, int]) -> bytes:
    """Write many groups' settings (SubscriptionGroupWrapper)."""
    groups = {config.name: config for config in configs}
    return write_body(GroupConfigs(groups, dumps(dict(version)).decode()))


def decode_group_config(body: bytes) -> GroupConfig:
    """Read a group's settings; what an old broker does not know has its default.

    Raises:
        ProtocolError: not a group's settings.
    """
    return read_body(GroupConfig, body)


def decode_group_configs(body: bytes) -> GroupConfigs:
    """Read the settings of all groups, or of a page of them.

    Raises:
        ProtocolError: not such a table.
    """
    found = read_body(GroupConfigs, body)
    return replace(found, groups={name: found.groups[name] for name in possible(found.groups)})


def decode_groups_of_topic(body: bytes) -> tuple[str, ...]:
    """Read which groups consume a topic, sorted (GroupList)."""
    return possible(TEXTS.at(load_object(body), "groupList"))


def decode_group_list(body: bytes) -> tuple[str, ...]:
    """Read the names of a broker's subscription groups, sorted (SubscriptionGroupWrapper)."""
    return possible(OBJECT.at(load_object(body), "subscriptionGroupTable"))


def encode_groups_of_topic(groups: Iterable[str]) -> bytes:
    """Write which groups consume a topic (GroupList)."""
    return dumps({"groupList": list(groups)})
