import json

import pytest

from orderly.errors import BrokerError, ConfigError, GroupNotFound
from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import reply_to
from orderly.protocol.groups import (
    GroupConfig,
    encode_group_config,
    encode_group_configs,
    encode_groups_of_topic,
)
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import RunningInfo, encode_running_info
from orderly.protocol.offsets import encode_offsets_of_members, encode_reset
from orderly.protocol.pull import decode_filter_check
from orderly.protocol.statistics import TopicOffset, encode_topic_stats

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
MEMBERS = RequestCode.GET_CONSUMER_CONNECTION_LIST
COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET
CHECK = RequestCode.CHECK_CLIENT_CONFIG
A = [MessageQueue("orders", "broker-a", n) for n in range(2)]
B = [MessageQueue("orders", "broker-b", n) for n in range(2)]
SQL = Subscription("orders", "a > 1", version=1, expression_type="SQL92")


@pytest.fixture
def two(new_broker, cluster):
    """Two masters with topic "orders"; each queue holds 3 to 9, and resets are taken."""
    brokers = [new_broker(), new_broker()]
    for broker, queues in zip(brokers, (A, B), strict=True):
        table = encode_topic_stats(dict.fromkeys(queues, TopicOffset(3, 9)))
        broker.on(RequestCode.GET_TOPIC_STATS_INFO, body=table)
        broker.on(RequestCode.GET_BROKER_CONFIG, body=b"a=1\nuseServerSideResetOffset=true\nb=2\n")
        broker.on(RESET, body=encode_reset({queues[0]: 4}))
        broker.on(MEMBERS, code=206)
    layout = {f"broker-{n}": {0: b.address} for n, b in zip("ab", brokers, strict=True)}
    cluster.add("orders", **layout)
    return brokers


def resets(broker):
    return [command.ext for command in broker.requests(RESET)]


# --- offsets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("moment", "timestamp"), [(12.3456, "12345"), (None, "-1"), (0, "0")])
def test_a_topic_is_reset_on_every_master(client, two, moment, timestamp):
    assert client.groups.reset_offsets("g", "orders", moment=moment) == {A[0]: 4, B[0]: 4}
    for broker in two:
        assert resets(broker) == [
            {"topic": "orders", "group": "g", "timestamp": timestamp, "isForce": "true"}
        ]


def test_each_queue_is_reset_at_its_own_broker(client, two):
    client.groups.reset_queues("g", {A[1]: 3, B[0]: 9})
    for broker, queue_id, offset in ((two[0], "1", "3"), (two[1], "0", "9")):
        (ext,) = resets(broker)
        assert (ext["queueId"], ext["offset"], ext["group"]) == (queue_id, offset, "g")
        assert ext["timestamp"] == "0", "a broker that ignores the queue must not skip messages"


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ({A[0]: 5, B[1]: 10}, "3 to 9"),
        ({A[0]: 5, B[1]: 2}, "3 to 9"),
        ({A[0]: 5, MessageQueue("orders", "broker-b", 2): 5}, "no queue orders/broker-b/2"),
    ],
)
def test_an_offset_no_queue_has_is_refused_before_anything_is_sent(client, two, offsets, said):
    with pytest.raises(ConfigError, match=said):
        client.groups.reset_queues("g", offsets)
    assert resets(two[0]) == resets(two[1]) == []


@pytest.mark.parametrize("setting", [b"a=1\n", b"useServerSideResetOffset=false\n"])
def test_a_broker_that_tells_no_member_is_sent_nothing_while_one_is_online(client, two, setting):
    two[1].on(RequestCode.GET_BROKER_CONFIG, body=setting)
    two[1].on(COMMIT)
    two[0].on(MEMBERS, **online("c1"))  # a member may be known to another broker only
    with pytest.raises(ConfigError, match=r"broker-b.*stop them.*useServerSideResetOffset=true"):
        client.groups.reset_queues("g", {A[0]: 5, B[0]: 5})
    assert resets(two[0]) == resets(two[1]) == two[1].requests(COMMIT) == []


def test_at_a_broker_that_tells_no_member_offsets_are_written_while_none_is_online(client, two):
    two[1].on(RequestCode.GET_BROKER_CONFIG, body=b"a=1\n")
    two[1].on(COMMIT)
    client.groups.reset_queues("g", {A[0]: 5, B[0]: 4})
    assert [ext["offset"] for ext in resets(two[0])] == ["5"]
    (written,) = two[1].requests(COMMIT)
    assert resets(two[1]) == []
    names = ("consumerGroup", "topic", "queueId", "commitOffset")
    assert [written.ext[name] for name in names] == ["g", "orders", "0", "4"]


def test_an_unknown_group_is_told(client, two):
    two[0].on(RESET, code=26, remark="Group g does not exist")
    with pytest.raises(GroupNotFound):
        client.groups.reset_queues("g", {A[0]: 5, B[0]: 5})
    assert resets(two[1]) == [], "what comes after a failure is left as it was"


# --- members -----------------------------------------------------------------------------------


def online(*ids):
    return {"body": json.dumps({"connectionSet": [{"clientId": i} for i in ids]}).encode()}


def test_a_members_running_info_comes_through_the_broker_that_has_it(client, two):
    info = RunningInfo({"a": "1"}, jstack="main")
    two[0].on(MEMBERS, **online("other"))
    two[1].on(MEMBERS, **online("c1"))
    two[1].on(INFO, body=encode_running_info(info))
    assert client.groups.running_info("g", "c1", stack=True) == info
    (asked,) = two[1].requests(INFO)
    assert asked.ext == {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"}
    assert two[0].requests(INFO) == []


def test_a_member_that_is_not_online_is_told_with_those_that_are(client, two):
    two[0].on(MEMBERS, **online("c1"))
    with pytest.raises(ConfigError, match=r"'c2'.*online: c1"):
        client.groups.running_info("g", "c2")


def test_a_member_that_does_not_answer_the_broker_is_told(client, two):
    two[0].on(MEMBERS, **online("c1"))
    two[0].on(INFO, code=207, remark="Timeout")
    with pytest.raises(BrokerError, match="did not answer in time") as raised:
        client.groups.running_info("g", "c1")
    assert raised.value.code == 207


def test_members_offsets_are_joined(client, two):
    code = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    two[0].on(code, body=encode_offsets_of_members({"c1": {A[0]: 4}, "c2": {A[1]: 5}}))
    two[1].on(code, body=encode_offsets_of_members({"c1": {B[0]: 6}}))
    assert client.groups.member_offsets("g", "orders") == {
        "c1": {A[0]: 4, B[0]: 6},
        "c2": {A[1]: 5},
    }


# --- settings ----------------------------------------------------------------------------------


def test_groups_of_a_topic_are_joined(client, two):
    for broker, groups in zip(two, (["b", "a"], ["b", "c"]), strict=True):
        broker.on(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, body=encode_groups_of_topic(groups))
    assert client.groups.consuming("orders") == ("a", "b", "c")


def test_a_groups_settings_are_asked_of_one_broker(client, two):
    config = GroupConfig(name="g", broadcast_enabled=False)
    two[1].on(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, body=encode_group_config(config))
    assert client.groups.group_config("g", "broker-b") == config
    with pytest.raises(ConfigError, match="broker-a, broker-b"):
        client.groups.group_config("g", "nosuch")


def test_a_broker_that_answers_for_all_groups_only_is_asked_for_all(client, two):
    """Before release 5.0."""
    config = GroupConfig(name="g", broadcast_enabled=False)
    everything = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    two[0].on(
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    )
    two[0].on(everything, body=encode_group_configs([config], {"counter": 1}))
    assert client.groups.group_config("g", "broker-a") == config
    assert client.groups.group_config("new", "broker-a") == GroupConfig(name="new")
    two[0].on(everything, code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    with pytest.raises(BrokerError, match="the settings of group 'g'"):
        client.groups.group_config("g", "broker-a")


def test_a_group_that_a_broker_says_it_lacks_has_the_settings_of_a_new_one(client, two):
    """Release 5.0 to 5.2: no group is made, and the code is that of any error."""
    ask, code = RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, ResponseCode.SYSTEM_ERROR
    two[0].on(ask, code=code, remark="No group in this broker")
    assert client.groups.group_config("new", "broker-a") == GroupConfig(name="new")
    two[0].on(ask, code=code, remark="out of memory")
    with pytest.raises(BrokerError, match="out of memory"):
        client.groups.group_config("new", "broker-a")


def test_every_broker_of_the_topic_is_asked_about_a_filter(client, two):
    for broker in two:
        broker.on(CHECK)
    client.groups.check_filter("g", SQL, "c1")
    for broker in two:
        check = decode_filter_check(broker.requests(CHECK)[0].body)
        assert (check.client_id, check.group, check.subscription) == ("c1", "g", SQL)


@pytest.mark.parametrize(
    ("code", "remark", "said"),
    [
        (23, "Encountered >", "'broker-b' does not understand.*Encountered >"),
        (1, "The broker does not support consumer to filter message by SQL92", "enableProperty"),
    ],
)
def test_a_filter_one_broker_refuses_is_a_configuration_error(client, two, code, remark, said):
    two[0].on(CHECK)
    two[1].on(CHECK, code=code, remark=remark)
    with pytest.raises(ConfigError, match=said):
        client.groups.check_filter("g", SQL, "c1")


def test_another_failure_of_a_filter_check_is_no_configuration_error(client, two):
    two[0].on(CHECK, lambda asked: reply_to(asked, 1, remark="NullPointerException"))
    with pytest.raises(BrokerError, match="NullPointer"):
        client.groups.check_filter("g", SQL, "c1")
