"""What servers write, the client reads: each pair of halves fits."""

import pytest

from orderly.errors import ProtocolError
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.protocol import broker_bodies as written
from orderly.protocol.bodies import (
    ClusterInfo,
    decode_cluster_info,
    decode_consumer_ids,
    decode_group_list,
    decode_locked,
    decode_route,
    decode_topic_list,
    lock_request,
)
from orderly.protocol.group_config import GroupConfig, encode_group_configs
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.stats_bodies import (
    ConsumerConnection,
    ConsumerConnections,
    OffsetPair,
    TopicOffset,
    decode_connections,
    decode_consume_stats,
    decode_topic_stats,
)

QUEUES = (MessageQueue("t", "broker-a", 0), MessageQueue("t", "broker-b", 1))
BROKERS = {
    name: BrokerData(name, "C", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
    for name in ("broker-a", "broker-b")
}
ROUTE = TopicRoute(
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
    body = written.encode_route(ROUTE, standard=standard)
    assert decode_route("t", body) == ROUTE
    assert (b'"0":' in body) == standard


def test_a_cluster():
    info = ClusterInfo(BROKERS, {"C": ("broker-a", "broker-b")})
    body = written.encode_cluster_info(info)
    assert decode_cluster_info(body) == info
    assert b"{0:" in body, "name servers write bare numbers here"


def test_locks():
    request = written.decode_lock_request(lock_request("g", "c", QUEUES))
    assert request == written.LockRequest("g", "c", QUEUES)
    assert decode_locked(written.encode_locked(QUEUES)) == frozenset(QUEUES)


@pytest.mark.parametrize("body", [b"", b'{"clientId":"c","mqSet":[]}', b'{"consumerGroup":"g"}'])
def test_a_lock_needs_a_group_and_a_client(body):
    with pytest.raises(ProtocolError):
        written.decode_lock_request(body)


def test_lists_of_names():
    assert decode_consumer_ids(written.encode_consumer_ids(["c2", "c1"])) == ("c2", "c1")
    assert decode_topic_list(written.encode_topic_list(["t2", "t1"])) == ("t1", "t2")
    assert decode_topic_list(written.encode_topic_list(["t"], "h:1")) == ("t",)
    groups = [GroupConfig(name="g2"), GroupConfig(name="g1")]
    assert decode_group_list(encode_group_configs(groups, {})) == ("g1", "g2")


def test_offsets_of_a_topic():
    rows = {QUEUES[0]: TopicOffset(1, 5, 12.345), QUEUES[1]: TopicOffset(0, 0, 0.0)}
    assert decode_topic_stats(written.encode_topic_stats(rows)) == rows


def test_offsets_of_a_group():
    rows = {QUEUES[0]: OffsetPair(9, 3, 7, 12.345), QUEUES[1]: OffsetPair(0, 0, 0, 0.0)}
    assert decode_consume_stats(written.encode_consume_stats(rows)) == rows


def test_members_of_a_group():
    info = ConsumerConnections(
        (ConsumerConnection("c1", "10.0.0.9:4711", "PYTHON", 513),),
        "CONSUME_PASSIVELY",
        "CLUSTERING",
        "CONSUME_FROM_LAST_OFFSET",
        {"t": Subscription.from_expression("t", "a || b", 7)},
    )
    assert decode_connections(written.encode_connections(info)) == info
