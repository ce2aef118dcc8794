"""Consumer groups: their settings on a broker (SubscriptionGroupConfig), and which there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from orderly.protocol.codes import RequestCode
from orderly.protocol.java_json import (
    as_object,
    bool_in,
    data_version_in,
    dumps,
    int_in,
    load_object,
    object_in,
    text_in,
    texts_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfig:
    """A group's settings on one broker (GroupConfig). A read that may create the group."""

    code: ClassVar[RequestCode] = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Delete a group's settings on one broker (DeleteSubscriptionGroupRequestHeader)."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_SUBSCRIPTIONGROUP

    group_name: str
    clean_offset: bool = False


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
    """A group's settings; the defaults are those of a group that a broker creates by itself.

    Attributes:
        name: of the group.
        consume_enabled: False: pulls are refused.
        consume_from_min: whether a new group may start at the oldest message.
        broadcast_enabled: False: pulls of broadcasting members are refused.
        orderly: whether gRPC clients behind a proxy get messages in order; remoting clients
            decide that for themselves.
        retry_queues: queues of its %RETRY% topic.
        retry_max_times: retries of clients that send none of their own.
        notify_members_changed: whether members are told when others come and go.
        consume_timeout: seconds.
    """

    name: str
    consume_enabled: bool = True
    consume_from_min: bool = True
    broadcast_enabled: bool = True
    orderly: bool = False
    retry_queues: int = 1
    retry_max_times: int = 16
    notify_members_changed: bool = True
    consume_timeout: float = 900.0


@dataclass(frozen=True, slots=True)
class GroupConfigs:
    """All groups of a broker by name, or a page of them; `version` is for the next page."""

    groups: Mapping[str, GroupConfig]
    version: str = ""


def encode_group_config(config: GroupConfig) -> bytes:
    """Write the body that creates a group or replaces its settings, and what a broker answers."""
    return dumps(_to_json(config))


def encode_group_configs(configs: Iterable[GroupConfig], version: Mapping[str, int]) -> bytes:
    """Write many groups' settings (SubscriptionGroupWrapper)."""
    return dumps(
        {
            "dataVersion": dict(version),
            "forbiddenTable": {},
            "subscriptionGroupTable": {config.name: _to_json(config) for config in configs},
        }
    )


def _to_json(config: GroupConfig) -> dict[str, Any]:
    return {
        "groupName": config.name,
        "consumeEnable": config.consume_enabled,
        "consumeFromMinEnable": config.consume_from_min,
        "consumeBroadcastEnable": config.broadcast_enabled,
        "consumeMessageOrderly": config.orderly,
        "retryQueueNums": config.retry_queues,
        "retryMaxTimes": config.retry_max_times,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
        "notifyConsumerIdsChangedEnable": config.notify_members_changed,
        "consumeTimeoutMinute": round(config.consume_timeout / 60),
    }


def decode_group_config(body: bytes) -> GroupConfig:
    """Read a group's settings; what an old broker does not know has its default.

    Raises:
        ProtocolError: not a group's settings.
    """
    return _from_json(load_object(body))


def decode_group_configs(body: bytes) -> GroupConfigs:
    """Read the settings of all groups, or of a page of them.

    Raises:
        ProtocolError: not such a table.
    """
    fields = load_object(body)
    table = object_in(fields, "subscriptionGroupTable")
    groups = {name: _from_json(as_object(one, "a group")) for name, one in table.items()}
    return GroupConfigs(groups, data_version_in(fields))


def _from_json(fields: dict[str, Any]) -> GroupConfig:
    return GroupConfig(
        name=text_in(fields, "groupName"),
        consume_enabled=bool_in(fields, "consumeEnable", default=True),
        consume_from_min=bool_in(fields, "consumeFromMinEnable", default=True),
        broadcast_enabled=bool_in(fields, "consumeBroadcastEnable", default=True),
        orderly=bool_in(fields, "consumeMessageOrderly"),
        retry_queues=int_in(fields, "retryQueueNums", 1),
        retry_max_times=int_in(fields, "retryMaxTimes", 16),
        notify_members_changed=bool_in(fields, "notifyConsumerIdsChangedEnable", default=True),
        consume_timeout=int_in(fields, "consumeTimeoutMinute", 15) * 60.0,
    )


def decode_groups_of_topic(body: bytes) -> tuple[str, ...]:
    """Read which groups consume a topic, sorted (GroupList)."""
    return tuple(sorted(texts_in(load_object(body), "groupList")))


def decode_group_list(body: bytes) -> tuple[str, ...]:
    """Read the names of a broker's subscription groups, sorted (SubscriptionGroupWrapper)."""
    return tuple(sorted(object_in(load_object(body), "subscriptionGroupTable")))


def encode_groups_of_topic(groups: Iterable[str]) -> bytes:
    """Write which groups consume a topic (GroupList)."""
    return dumps({"groupList": list(groups)})
