"""Routes: which brokers have a topic's queues, and which brokers a cluster has.

Every decoder raises ProtocolError for a body that is not what the Java class of that name writes.
Map keys that are numbers are written as fastjson does, where servers do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, ClassVar

from orderly.errors import ProtocolError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.body import (
    INT,
    MAX_ADDRESSES,
    MAX_QUEUES,
    NAME,
    QUEUE_COUNT,
    TEXT,
    JsonKind,
    as_object,
    check_total,
    list_of,
    load_object,
    read_body,
    texts_to,
    write_body,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import wire
from orderly.protocol.java_json import dumps


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRouteInfo:
    """A topic's route, asked of a name server; the body is read by `decode_route`."""

    code: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None


def decode_route(topic: str, body: bytes) -> TopicRoute:
    """Read a topic's route (TopicRouteData), in standard JSON or with bare integer keys."""
    fields = load_object(body)
    queues = _QUEUES.at(fields, "queueDatas")
    brokers = _BROKERS.at(fields, "brokerDatas")
    total = sum(max(q.read_queues, q.write_queues, 1) for q in queues)
    check_total(total, MAX_QUEUES, f"queues of topic {topic!r:.80}")
    _check_addresses(brokers)
    return TopicRoute(topic, queues, brokers, order_conf=TEXT.at(fields, "orderTopicConf", ""))


def _check_addresses(brokers: Iterable[BrokerData]) -> None:
    total = sum(max(len(broker.addresses), 1) for broker in brokers)
    check_total(total, MAX_ADDRESSES, "addresses of brokers")


def _read_queues(value: Any, what: str) -> QueueData:
    fields = as_object(value, what)
    return QueueData(
        broker_name=NAME.at(fields, "brokerName"),
        read_queues=QUEUE_COUNT.at(fields, "readQueueNums"),
        write_queues=QUEUE_COUNT.at(fields, "writeQueueNums"),
        # of the bits Java defines only three concern a client
        permission=Permission(INT.at(fields, "perm") & 7),
        topic_sys_flag=INT.at(fields, "topicSysFlag", 0),
    )


def _read_broker(value: Any, what: str) -> BrokerData:
    fields = as_object(value, what)
    addresses = _ADDRESSES.at(fields, "brokerAddrs")
    return BrokerData(
        broker_name=NAME.at(fields, "brokerName"),
        cluster=NAME.at(fields, "cluster", ""),
        addresses={_broker_id(key): address for key, address in addresses.items()},
    )


def _broker_id(key: str) -> int:
    if not (key.isascii() and key.isdecimal() and len(key) < 20):
        raise ProtocolError(f"{key!r:.80} is not a broker id")
    return int(key)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """All brokers a name server knows, by name, and the names of each cluster's brokers."""

    brokers: Mapping[str, _Broker] = wire("brokerAddrTable")
    clusters: Mapping[str, tuple[str, ...]] = wire("clusterAddrTable")


def decode_cluster_info(body: bytes) -> ClusterInfo:
    """Read the clusters a name server knows (ClusterInfo)."""
    info = read_body(ClusterInfo, body)
    _check_addresses(info.brokers.values())
    for name in chain(info.brokers, info.clusters, *info.clusters.values()):
        NAME.read(name, "a broker's or a cluster's name")
    return info


def encode_route(route: TopicRoute, *, standard: bool) -> bytes:
    """Write a topic's route (TopicRouteData); `standard`: broker ids as strings, not bare."""
    fields: dict[str, Any] = {
        "brokerDatas": [_write_broker(data, standard=standard) for data in route.brokers],
        "filterServerTable": {},
        "queueDatas": list(map(_write_queues, route.queues)),
    }
    return dumps(fields | ({"orderTopicConf": route.order_conf} if route.order_conf else {}))


def encode_cluster_info(info: ClusterInfo) -> bytes:
    """Write the clusters a name server knows (ClusterInfo)."""
    return write_body(info)


def _write_queues(data: QueueData) -> dict[str, Any]:
    return {
        "brokerName": data.broker_name,
        "perm": int(data.permission),
        "readQueueNums": data.read_queues,
        "topicSysFlag": data.topic_sys_flag,
        "writeQueueNums": data.write_queues,
    }


def _write_broker(data: BrokerData, *, standard: bool = False) -> dict[str, Any]:
    return {
        "brokerAddrs": {
            str(number) if standard else number: address
            for number, address in data.addresses.items()
        },
        "brokerName": data.broker_name,
        "cluster": data.cluster,
        "enableActingMaster": False,
    }


_ADDRESSES = texts_to(NAME)
_QUEUES = list_of(JsonKind(_read_queues))
_BROKER = JsonKind(_read_broker, _write_broker)
_BROKERS = list_of(_BROKER)
_Broker = Annotated[BrokerData, _BROKER]
