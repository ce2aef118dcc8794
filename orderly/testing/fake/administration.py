"""Topics, groups and the broker's own settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.groups import (
    DeleteGroup,
    GetGroupConfig,
    GetGroupConfigs,
    GroupConfig,
    GroupsOfTopic,
    TopicsOfGroup,
    decode_group_config,
    encode_group_config,
    encode_group_configs,
    encode_groups_of_topic,
)
from orderly.protocol.java_json import dumps, loads
from orderly.protocol.topics import (
    CreateTopic,
    DeleteTopicInBroker,
    GetTopicConfig,
    GetTopicConfigs,
    TopicConfig,
    changed_attributes,
    encode_topic_config,
    encode_topic_configs,
    encode_topic_list,
)
from orderly.testing.fake.exchange import Call, RequestRefused
from orderly.testing.fake.state import (
    BrokerState,
    check_name,
    check_not_system,
    check_type,
    is_group_name,
)

C = TypeVar("C", TopicConfig, GroupConfig)

_MAX_PAGE = 2000  # splitMetadataSize
_FIXED = {
    "enablePropertyFilter": "false",
    "useServerSideResetOffset": "true",
    "brokerRole": "ASYNC_MASTER",
    "fileReservedTime": "72",
    "enableSplitMetadata": "true",
}


def create_topic(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 17."""
    header = call.read(CreateTopic)
    check_name(header.topic)
    check_not_system(header.topic)
    present = state.topics.get(header.topic)
    attributes = changed_attributes(present.attributes if present else {}, header.attributes)
    check_type(attributes)
    state.create_topic(
        TopicConfig(
            name=header.topic,
            read_queues=header.read_queue_nums,
            write_queues=header.write_queue_nums,
            perm=header.perm,
            order=header.order,
            filter_type=header.topic_filter_type,
            sys_flag=header.topic_sys_flag,
            attributes=attributes,
        )
    )
    return call.reply()


def delete_topic(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 215. The name server gets a request of its own."""
    topic = call.read(DeleteTopicInBroker).topic
    check_not_system(topic)
    state.delete_topic(topic)
    return call.reply()


def topic_config(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 351."""
    topic = call.read(GetTopicConfig).topic
    config = state.topics.get(topic)
    if config is None:
        raise RequestRefused(
            ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {topic}"
        )
    return call.reply(body=encode_topic_config(config))


def groups_of_topic(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 300."""
    topic = call.read(GroupsOfTopic).topic
    groups = state.members.subscribed_to(topic) | state.offsets.groups_of(topic)
    return call.reply(body=encode_groups_of_topic(sorted(groups)))


def topics_of_group(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 343."""
    topics = state.offsets.topics_of(call.read(TopicsOfGroup).group)
    return call.reply(body=encode_topic_list(sorted(topics), state.address))


def put_group(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 200."""
    config = decode_group_config(call.command.body)
    if not is_group_name(config.name):
        remark = f"group {config.name!r:.200} is too long or holds illegal characters"
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, remark)
    state.groups.put(config)
    return call.reply()


def delete_group(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 207."""
    header = call.read(DeleteGroup)
    state.groups.remove(header.group_name)
    if header.clean_offset:
        state.offsets.forget_group(header.group_name)
    return call.reply()


def group_config(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 352, a read that creates the group."""
    group = call.read(GetGroupConfig).group
    create = state.enabled("autoCreateSubscriptionGroup")
    config = state.groups.find(group, create=create)
    if config is None:
        raise RequestRefused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker")
    return call.reply(body=encode_group_config(config))


def topic_list(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 21: whole, or a page if any field of one is there."""
    topics, version = state.topics.all(), state.topics.version
    total = {"totalTopicNum": str(len(topics))}
    if call.command.ext:
        header = call.read(GetTopicConfigs)
        begin = _begin(header.topic_seq, header.data_version, version)
        topics = _page(topics, begin, header.max_topic_num)
    return call.reply(ext=total, body=encode_topic_configs(topics, version))


def group_list(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 201: whole, or a page if any field of one is there."""
    groups, version = state.groups.all(), state.groups.version
    total = {"totalGroupNum": str(len(groups))}
    if call.command.ext:
        header = call.read(GetGroupConfigs)
        begin = _begin(header.group_seq, header.data_version, version)
        groups = _page(groups, begin, header.max_group_num)
    return call.reply(ext=total, body=encode_group_configs(groups, version))


def _begin(wanted: int, seen: str, present: Mapping[str, int]) -> int:
    """A page of a table that has changed meanwhile is the first one."""
    return wanted if seen.strip() and loads(seen.encode()) == present else 0


def _page(configs: Iterable[C], begin: int, count: int | None) -> list[C]:
    size = _MAX_PAGE if count is None else min(count, _MAX_PAGE)
    return sorted(configs, key=lambda config: config.name)[begin : begin + size]


def settings(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 26."""
    lines = sorted((state.settings | _FIXED | _names(state)).items())
    return call.reply(body="".join(f"{name}={value}\n" for name, value in lines).encode())


def running(state: BrokerState, call: Call) -> RemotingCommand:  # noqa: ARG001  as its siblings
    """Answer code 28, as a broker that was started at this moment: no clock runs in here."""
    table = {
        "bootTimestamp": str(int(call.now * 1000)),
        "brokerVersionDesc": "V5_5_0",
        "runtime": "[ 0 days, 0 hours, 0 minutes, 0 seconds ]",
    }
    return call.reply(body=dumps({"table": table}))


def change_settings(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 25. A setting this broker does not have is refused, not ignored."""
    pairs = [line.partition("=") for line in call.command.body.decode().splitlines() if line]
    wanted = {name.strip(): value.strip() for name, _, value in pairs}
    unknown = {n: v for n, v in wanted.items() if n not in state.settings and _FIXED.get(n) != v}
    if unknown:
        real = "use a real one (--orderly-broker=embedded)"
        remark = f"the fake broker cannot be set to {unknown}; {real}"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
    state.settings |= {n: v for n, v in wanted.items() if n in state.settings}
    state.announce(state.topics.all())
    return call.reply()


def _names(state: BrokerState) -> dict[str, str]:
    return {"brokerName": state.name, "brokerClusterName": state.name_server.cluster}
