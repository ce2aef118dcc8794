"""JSON bodies of routes, locks, member lists and topics.

Heartbeats are in `heartbeat`, statistics in `stats_bodies`. Every decoder raises ProtocolError
for a body that is not what the broker's Java class of that name would write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ProtocolError
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.protocol.heartbeat import (
    ConsumerData,
    Heartbeat,
    ProducerData,
    Subscription,
    decode_heartbeat,
    encode_heartbeat,
)
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    MAX_ADDRESSES,
    MAX_QUEUES,
    as_object,
    as_text,
    check_total,
    count_in,
    int_in,
    load_object,
    object_in,
    objects_in,
    queue_from_json,
    queue_to_json,
    text_in,
    texts_in,
)
from orderly.protocol.stats_bodies import (
    ConsumerConnection,
    ConsumerConnections,
    OffsetPair,
    TopicOffset,
    decode_connections,
    decode_consume_stats,
    decode_topic_stats,
)

__all__ = [
    "ClusterInfo",
    "ConsumerConnection",
    "ConsumerConnections",
    "ConsumerData",
    "Heartbeat",
    "OffsetPair",
    "ProducerData",
    "Subscription",
    "TopicOffset",
    "decode_cluster_info",
    "decode_connections",
    "decode_consume_stats",
    "decode_consumer_ids",
    "decode_group_list",
    "decode_heartbeat",
    "decode_locked",
    "decode_route",
    "decode_topic_list",
    "decode_topic_stats",
    "encode_heartbeat",
    "lock_request",
]


def decode_route(topic: str, body: bytes) -> TopicRoute:
    """Read a topic's route (TopicRouteData), in standard JSON or with bare integer keys."""
    fields = load_object(body)
    queues = tuple(map(_queue_data, objects_in(fields, "queueDatas")))
    brokers = tuple(map(_broker_data, objects_in(fields, "brokerDatas")))
    total = sum(max(q.read_queues, q.write_queues, 1) for q in queues)
    check_total(total, MAX_QUEUES, f"queues of topic {topic!r:.80}")
    _check_addresses(brokers)
    return TopicRoute(topic, queues, brokers, order_conf=text_in(fields, "orderTopicConf", ""))


def _check_addresses(brokers: Iterable[BrokerData]) -> None:
    total = sum(max(len(broker.addresses), 1) for broker in brokers)
    check_total(total, MAX_ADDRESSES, "addresses of brokers")


def _queue_data(fields: dict[str, Any]) -> QueueData:
    return QueueData(
        broker_name=text_in(fields, "brokerName"),
        read_queues=count_in(fields, "readQueueNums"),
        write_queues=count_in(fields, "writeQueueNums"),
        # of the bits Java defines only three concern a client
        permission=Permission(int_in(fields, "perm") & 7),
        topic_sys_flag=int_in(fields, "topicSysFlag", 0),
    )


def _broker_data(fields: dict[str, Any]) -> BrokerData:
    addresses = object_in(fields, "brokerAddrs")
    return BrokerData(
        broker_name=text_in(fields, "brokerName"),
        cluster=text_in(fields, "cluster", ""),
        addresses={
            _broker_id(key): as_text(address, "a broker's address")
            for key, address in addresses.items()
        },
    )


def _broker_id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 20):
        raise ProtocolError(f"{key!r:.80} is no broker id")
    return int(key)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """All brokers a name server knows, by name, and the names of each cluster's brokers."""

    brokers: Mapping[str, BrokerData]
    clusters: Mapping[str, tuple[str, ...]]


def decode_cluster_info(body: bytes) -> ClusterInfo:
    """Read the clusters a name server knows (ClusterInfo)."""
    fields = load_object(body)
    table = object_in(fields, "brokerAddrTable")
    brokers = {name: _broker_data(as_object(data, "a broker")) for name, data in table.items()}
    _check_addresses(brokers.values())
    clusters = object_in(fields, "clusterAddrTable")
    return ClusterInfo(brokers, {name: texts_in(clusters, name) for name in clusters})


def lock_request(group: str, client_id: str, queues: Iterable[MessageQueue]) -> bytes:
    """Write the body that asks to lock or to unlock `queues` (LockBatchRequestBody)."""
    return dumps(
        {
            "consumerGroup": group,
            "clientId": client_id,
            "onlyThisBroker": False,
            "mqSet": [queue_to_json(queue) for queue in queues],
        }
    )


def decode_locked(body: bytes) -> frozenset[MessageQueue]:
    """Read which of the requested queues the client now holds (LockBatchResponseBody)."""
    return frozenset(map(queue_from_json, objects_in(load_object(body), "lockOKMQSet")))


def decode_consumer_ids(body: bytes) -> tuple[str, ...]:
    """Read a group's client ids, in the broker's order (GetConsumerListByGroupResponseBody)."""
    return texts_in(load_object(body), "consumerIdList")


def decode_topic_list(body: bytes) -> tuple[str, ...]:
    """Read topic names, sorted (TopicList)."""
    return tuple(sorted(texts_in(load_object(body), "topicList")))


def decode_groups_of_topic(body: bytes) -> tuple[str, ...]:
    """Read which groups consume a topic, sorted (GroupList)."""
    return tuple(sorted(texts_in(load_object(body), "groupList")))


def decode_group_list(body: bytes) -> tuple[str, ...]:
    """Read the names of a broker's subscription groups, sorted (SubscriptionGroupWrapper)."""
    return tuple(sorted(object_in(load_object(body), "subscriptionGroupTable")))
