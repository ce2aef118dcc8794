"""JSON bodies as brokers and name servers write them, and the lock request as they read it.

The other halves, what a client reads and writes, are in `bodies` and `stats_bodies`. Map keys
that are numbers or queues are written as fastjson does, where the servers do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orderly.model import BrokerData, MessageQueue, TopicRoute
from orderly.protocol.backlog_bodies import ConsumeQueue, TimeSpan
from orderly.protocol.bodies import ClusterInfo
from orderly.protocol.heartbeat import subscription_to_json
from orderly.protocol.java_json import dumps
from orderly.protocol.json_values import (
    load_object,
    objects_in,
    queue_from_json,
    queue_table,
    queue_to_json,
    text_in,
)
from orderly.protocol.stats_bodies import ConsumerConnections, OffsetPair, TopicOffset


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


@dataclass(frozen=True, slots=True)
class LockRequest:
    """Who asks to lock, or to unlock, which queues."""

    group: str
    client_id: str
    queues: tuple[MessageQueue, ...]


def decode_lock_request(body: bytes) -> LockRequest:
    """Read what `bodies.lock_request` writes (LockBatchRequestBody).

    Raises:
        ProtocolError: not such a request; group and client must be there.
    """
    fields = load_object(body)
    return LockRequest(
        text_in(fields, "consumerGroup"),
        text_in(fields, "clientId"),
        tuple(map(queue_from_json, objects_in(fields, "mqSet"))),
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Write which queues the client holds now (LockBatchResponseBody)."""
    return dumps({"lockOKMQSet": [queue_to_json(queue) for queue in queues]})


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Write a group's client ids (GetConsumerListByGroupResponseBody)."""
    return dumps({"consumerIdList": list(client_ids)})


def encode_topic_list(topics: Iterable[str], broker_address: str | None = None) -> bytes:
    """Write topic names (TopicList); a broker adds its address."""
    address = {} if broker_address is None else {"brokerAddr": broker_address}
    return dumps(address | {"topicList": list(topics)})


def encode_groups_of_topic(groups: Iterable[str]) -> bytes:
    """Write which groups consume a topic (GroupList)."""
    return dumps({"groupList": list(groups)})


def encode_topic_stats(offsets: Mapping[MessageQueue, TopicOffset]) -> bytes:
    """Write a topic's offsets (TopicStatsTable)."""
    rows = {
        queue: {
            "lastUpdateTimestamp": round(row.last_update_time * 1000),
            "maxOffset": row.max_offset,
            "minOffset": row.min_offset,
        }
        for queue, row in offsets.items()
    }
    return dumps({"offsetTable": queue_table(rows), "topicPutTps": 0.0})


def encode_committed(offsets: Mapping[tuple[str, str], Mapping[int, int]]) -> bytes:
    """Write the committed offsets of all groups, by group and topic (ConsumerOffsetManager)."""
    table = {f"{topic}@{group}": dict(queues) for (group, topic), queues in offsets.items()}
    return dumps({"offsetTable": table})


def encode_time_spans(spans: Mapping[MessageQueue, TimeSpan], now: float) -> bytes:
    """Write how old the messages of queues are at `now` (QueryConsumeTimeSpanBody)."""
    return dumps({"consumeTimeSpanSet": [_span(q, span, now) for q, span in spans.items()]})


def _span(queue: MessageQueue, span: TimeSpan, now: float) -> dict[str, Any]:
    return {
        # of a message that is not there the broker takes -1 ms for the time
        "delayTime": round(now * 1000) + 1 if span.delay is None else round(span.delay * 1000),
        "maxTimeStamp": -1 if span.newest_at is None else round(span.newest_at * 1000),
        "messageQueue": queue_to_json(queue),
        "minTimeStamp": -1 if span.oldest_at is None else round(span.oldest_at * 1000),
    }


def encode_consume_queue(part: ConsumeQueue) -> bytes:
    """Write a part of a queue (QueryConsumeQueueResponseBody)."""
    return dumps(
        {
            "maxQueueIndex": part.maximum,
            "minQueueIndex": part.minimum,
            "queueData": [
                {
                    "eval": False,
                    "physicOffset": place.physical_offset,
                    "physicSize": place.size,
                    "tagsCode": place.tags_code,
                }
                for place in part.entries
            ],
        }
    )


def encode_consume_stats(offsets: Mapping[MessageQueue, OffsetPair]) -> bytes:
    """Write a group's offsets (ConsumeStats)."""
    rows = {
        queue: {
            "brokerOffset": row.broker_offset,
            "consumerOffset": row.consumer_offset,
            "lastTimestamp": round(row.last_time * 1000),
            "pullOffset": row.pull_offset,
        }
        for queue, row in offsets.items()
    }
    return dumps({"consumeTps": 0.0, "offsetTable": queue_table(rows)})


def encode_connections(info: ConsumerConnections) -> bytes:
    """Write a group's members and subscriptions (ConsumerConnection)."""
    return dumps(
        {
            "connectionSet": [
                {
                    "clientAddr": member.address,
                    "clientId": member.client_id,
                    "language": member.language,
                    "version": member.version,
                }
                for member in info.connections
            ],
            "consumeFromWhere": info.consume_from,
            "consumeType": info.consume_type,
            "messageModel": info.message_model,
            "subscriptionTable": {
                topic: subscription_to_json(data) for topic, data in info.subscriptions.items()
            },
        }
    )
