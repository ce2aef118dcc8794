"""What servers write, the client reads: each pair of halves fits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.protocol import heartbeat, locks, route, statistics, topics
from orderly.protocol.groups import (
    GroupConfig,
    decode_group_list,
    decode_groups_of_topic,
    encode_group_configs,
)
from orderly.protocol.heartbeat import Subscription, decode_consumer_ids
from orderly.protocol.locks import decode_locked, lock_request
from orderly.protocol.route import ClusterInfo, decode_cluster_info, decode_route
from orderly.protocol.statistics import (
    ConsumerConnection,
    ConsumerConnections,
    OffsetPair,
    TopicOffset,
    decode_connections,
    decode_consume_stats,
    decode_topic_stats,
)
from orderly.protocol.topics import decode_topic_list

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{%s:"127.0.0.1:10911"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,'
    b'"writeQueueNums":4}]}'
)
DECODERS = [
    lambda body: decode_route("t", body),
    decode_cluster_info,
    decode_consumer_ids,
    decode_group_list,
    decode_locked,
    decode_topic_list,
]


@pytest.mark.parametrize("broker_id", [b'"0"', b"0"], ids=["standard", "bare"])
def test_a_route_is_read_with_either_kind_of_key(broker_id):
    assert decode_route("orders", ROUTE % broker_id) == TopicRoute(
        topic="orders",
        queues=(QueueData("broker-a", 8, 4, Permission.READ | Permission.WRITE),),
        brokers=(BrokerData("broker-a", "DefaultCluster", {0: "127.0.0.1:10911"}),),
    )


def test_the_order_configuration_of_a_route_is_kept():
    body = b'{"orderTopicConf":"broker-a:8;broker-b:4"}'
    assert decode_route("t", body).order_conf == "broker-a:8;broker-b:4"
    assert decode_route("t", b'{"orderTopicConf":null}').order_conf == ""


def test_bits_of_a_permission_unknown_here_are_dropped():
    body = (ROUTE % b"0").replace(b'"perm":6', b'"perm":14')
    assert decode_route("t", body).queues[0].permission == Permission.READ | Permission.WRITE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"readQueueNums":8', b'"readQueueNums":2000000000'),
        (b'"readQueueNums":8', b'"readQueueNums":-1'),
        (b'"readQueueNums":8', b'"readQueueNums":true'),
        (b'"readQueueNums":8', b'"other":1'),
        (b'"perm":6', b'"perm":"6"'),
        (b"{0:", b"{-1:"),
        (b"{0:", b'{"master":'),
        (b'"127.0.0.1:10911"', b"10911"),
        (b'"brokerName":"broker-a"', b'"brokerName":null'),
    ],
)
def test_a_damaged_route_is_a_protocol_error(old, new):
    body = (ROUTE % b"0").replace(old, new)
    with pytest.raises(ProtocolError):
        decode_route("t", body)


def test_a_cluster_is_read_with_bare_keys():
    body = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},'
        b'"brokerName":"broker-a","cluster":"C","enableActingMaster":false}},'
        b'"clusterAddrTable":{"C":["broker-a"]}}'
    )
    broker = BrokerData("broker-a", "C", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"})
    assert decode_cluster_info(body) == ClusterInfo({"broker-a": broker}, {"C": ("broker-a",)})


def test_a_lock_request_names_group_client_and_queues():
    body = lock_request("g", "c", [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)])
    assert json.loads(body) == {
        "consumerGroup": "g",
        "clientId": "c",
        "onlyThisBroker": False,
        "mqSet": [
            {"topic": "t", "brokerName": "b", "queueId": 0},
            {"topic": "t", "brokerName": "b", "queueId": 1},
        ],
    }


def test_the_locked_queues_are_read():
    body = b'{"lockOKMQSet":[{"brokerName":"b","queueId":1,"topic":"t"}]}'
    assert decode_locked(body) == {MessageQueue("t", "b", 1)}
    assert decode_locked(b'{"lockOKMQSet":[]}') == frozenset()


def test_lists_of_members_topics_and_groups_are_read():
    assert decode_consumer_ids(b'{"consumerIdList":["b@2","a@1"]}') == ("b@2", "a@1")
    assert decode_topic_list(b'{"topicList":["b","a"]}') == ("a", "b")
    assert decode_group_list(b'{"subscriptionGroupTable":{"y":{},"x":{}}}') == ("x", "y")
    assert decode_groups_of_topic(b'{"groupList":["y","x"]}') == ("x", "y")


def test_a_name_that_is_no_text_is_refused_when_written():
    with pytest.raises(ProtocolError):
        lock_request("g\ud800", "c", [])


@pytest.mark.parametrize("decode", DECODERS)
@given(body=st.binary(max_size=60))
def test_garbage_gives_a_value_or_a_protocol_error(decode, body):
    try:
        decode(body)
    except ProtocolError:
        return


names = st.sampled_from(
    ["brokerDatas", "queueDatas", "brokerAddrs", "brokerName", "cluster", "perm", "readQueueNums",
     "writeQueueNums", "topicSysFlag", "orderTopicConf", "brokerAddrTable", "clusterAddrTable",
     "consumerIdList", "subscriptionGroupTable", "lockOKMQSet", "topicList", "topic", "queueId"]
)  # fmt: skip
misshapen = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=6),
    max_leaves=12,
)


@pytest.mark.parametrize("decode", DECODERS)
@given(fields=st.dictionaries(names, misshapen))
def test_fields_of_the_wrong_type_give_a_value_or_a_protocol_error(decode, fields):
    try:
        decode(json.dumps(fields).encode())
    except ProtocolError:
        return


QUEUES = (MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 1))
BROKERS = {
    name: BrokerData(name, "C", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
    for name in ("broker-a", "broker-b")
}
WRITTEN_ROUTE = TopicRoute(
    "t",
    (
        QueueData("broker-a", 4, 8, Permission.READ | Permission.WRITE),
        QueueData("broker-b", 1, 1, Permission.READ, 1),
    ),
    tuple(BROKERS.values()),
    order_conf="broker-a:8",
)


@pytest.mark.parametrize("standard", [True, False])
def test_a_route(standard):
    body = route.encode_route(WRITTEN_ROUTE, standard=standard)
    assert decode_route("t", body) == WRITTEN_ROUTE
    assert (b'"0":' in body) == standard


def test_a_cluster():
    info = ClusterInfo(BROKERS, {"C": ("broker-a", "broker-b")})
    body = route.encode_cluster_info(info)
    assert decode_cluster_info(body) == info
    assert b"{0:" in body, "name servers write bare numbers here"


def test_locks():
    request = locks.decode_lock_request(lock_request("g", "c", QUEUES))
    assert request == locks.LockRequest("g", "c", QUEUES)
    assert decode_locked(locks.encode_locked(QUEUES)) == frozenset(QUEUES)


@pytest.mark.parametrize("body", [b"", b'{"clientId":"c","mqSet":[]}', b'{"consumerGroup":"g"}'])
def test_a_lock_needs_a_group_and_a_client(body):
    with pytest.raises(ProtocolError):
        locks.decode_lock_request(body)


def test_lists_of_names():
    assert decode_consumer_ids(heartbeat.encode_consumer_ids(["c2", "c1"])) == ("c2", "c1")
    assert decode_topic_list(topics.encode_topic_list(["t2", "t1"])) == ("t1", "t2")
    assert decode_topic_list(topics.encode_topic_list(["t"], "h:1")) == ("t",)
    groups = [GroupConfig(name="g2"), GroupConfig(name="g1")]
    assert decode_group_list(encode_group_configs(groups, {})) == ("g1", "g2")


def test_offsets_of_a_topic():
    rows = {QUEUES[0]: TopicOffset(1, 5, 12.345), QUEUES[1]: TopicOffset(0, 0, 0.0)}
    assert decode_topic_stats(statistics.encode_topic_stats(rows)) == rows


def test_offsets_of_a_group():
    rows = {QUEUES[0]: OffsetPair(9, 3, 7, 12.345), QUEUES[1]: OffsetPair(0, 0, 0, 0.0)}
    assert decode_consume_stats(statistics.encode_consume_stats(rows)) == rows


def test_members_of_a_group():
    info = ConsumerConnections(
        (ConsumerConnection("c1", "10.0.0.9:4711", "PYTHON", 513),),
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        {"t": Subscription.from_expression("t", "a || b", 7)},
    )
    assert decode_connections(statistics.encode_connections(info)) == info
