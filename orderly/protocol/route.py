"""Routes: which brokers have a topic's queues, and which brokers a cluster has.

Every decoder raises ProtocolError for a body that is not what the Java class of that name writes.
Map keys that are numbers are written as fastjson does, where servers do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from orderly.errors import ProtocolError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.codes import RequestCode
from orderly.protocol.java_json import (
    MAX_ADDRESSES,
    MAX_QUEUES,
    as_object,
    as_text,
    check_total,
    count_in,
    dumps,
    int_in,
    load_object,
    object_in,
    objects_in,
    text_in,
    texts_in,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfo:
    """A topic's route, asked of a name server; the body is read by `decode_route`."""

    code: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None


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


def encode_route(route: TopicRoute, *, standard: bool) -> bytes:
    """Write a topic's route (TopicRouteData); `standard`: broker ids as strings, not bare."""
    fields: dict[str, Any] = {
        "brokerDatas": [_broker(data, standard=standard) for data in route.brokers],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": data.broker_name,
                "perm": int(data.permission),
                "readQueueNums": data.read_queues,
                "topicSysFlag": data.topic_sys_flag,
                "writeQueueNums": data.write_queues,
            }
            for data in route.queues
        ],
    }
    return dumps(fields | ({"orderTopicConf": route.order_conf} if route.order_conf else {}))


def encode_cluster_info(info: ClusterInfo) -> bytes:
    """Write the clusters a name server knows (ClusterInfo)."""
    return dumps(
        {
            "brokerAddrTable": {
                name: _broker(data, standard=False) for name, data in info.brokers.items()
            },
            "clusterAddrTable": {name: list(names) for name, names in info.clusters.items()},
        }
    )


def _broker(data: BrokerData, *, standard: bool) -> dict[str, Any]:
    return {
        "brokerAddrs": {
            str(number) if standard else number: address
            for number, address in data.addresses.items()
        },
        "brokerName": data.broker_name,
        "cluster": data.cluster,
        "enableActingMaster": False,
    }
