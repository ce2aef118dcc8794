"""Valid bytes for each decoder, written by the project's own encoders."""

import zlib
from dataclasses import fields, is_dataclass
from typing import get_args, get_type_hints

from orderly.model import (
    BrokerData,
    MessageQueue,
    Permission,
    QueueData,
    ReceivedMessage,
    TopicRoute,
)
from orderly.protocol import (
    groups,
    heartbeat,
    locks,
    members,
    offsets,
    pull,
    route,
    send,
    statistics,
    topics,
)
from orderly.protocol import offsets as rb
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import Serializer, encode_frame, request, write_json_header
from orderly.protocol.groups import GroupConfig, encode_group_config, encode_group_configs
from orderly.protocol.members import (
    DirectOutcome,
    DirectResult,
    QueueInfo,
    RunningInfo,
    TopicConsumeStatus,
    encode_direct_result,
    encode_running_info,
)
from orderly.protocol.park_record import (
    Command,
    ParkDetails,
    Released,
    Result,
    Verb,
    control_message,
    park_message,
)
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.properties import encode_properties
from orderly.protocol.pull import ConsumeQueue, FilterCheck, Place, encode_filter_check
from orderly.protocol.send import encode_batch
from orderly.protocol.state_record import Acquire, Confirm, Entry, Trying, encode_record
from orderly.protocol.statistics import TimeSpan
from orderly.protocol.topics import TopicConfig, encode_topic_config, encode_topic_configs

QUEUES = [MessageQueue("orders", "broker-a", i) for i in range(3)]
SUBSCRIPTION = heartbeat.Subscription.from_expression(
    "orders", "created || paid", 1_700_000_000_000
)
_OFFSETS = dict.fromkeys(QUEUES, 4711)
_BROKER = BrokerData("broker-a", "c", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
_ROUTE = TopicRoute(
    topic="orders",
    queues=(QueueData("broker-a", 4, 4, Permission(6), 0),),
    brokers=(_BROKER,),
    order_conf="broker-a:4",
)
_CONNECTIONS = statistics.ConsumerConnections(
    (statistics.ConsumerConnection("c1", "10.0.0.9:5000", "JAVA", 513),),
    "CONSUME_PASSIVELY",
    "CLUSTERING",
    "CONSUME_FROM_LAST_OFFSET",
    {"orders": SUBSCRIPTION},
)
_RUNNING = RunningInfo(
    {"PROP_CONSUMER_START_TIMESTAMP": "1700000000000"},
    (SUBSCRIPTION,),
    {queue: QueueInfo(commit_offset=7, locked=True, last_lock_time=1e9) for queue in QUEUES},
    {"orders": TopicConsumeStatus(pull_rt=1.5, consume_ok_tps=3.25)},
    "stacks",
)

_VERSION = {"counter": 3, "stateVersion": 0, "timestamp": 1_700_000_000_000}

JSON = {
    "route": [route.encode_route(_ROUTE, standard=s) for s in (True, False)],
    "clusters": [
        route.encode_cluster_info(route.ClusterInfo({"broker-a": _BROKER}, {"c": ("a",)}))
    ],
    "locked": [locks.encode_locked(QUEUES)],
    "lock request": [locks.lock_request("g", "c1", QUEUES)],
    "consumer ids": [heartbeat.encode_consumer_ids(["c1", "c2"])],
    "topics": [topics.encode_topic_list(["a", "b"], "10.0.0.1:10911")],
    "groups": [encode_group_configs([GroupConfig(name="g"), GroupConfig(name="h")], _VERSION)],
    "group configs": [encode_group_configs([GroupConfig(name="g")], _VERSION)],
    "topic configs": [
        encode_topic_configs([TopicConfig(name="t", read_queues=4, write_queues=8)], _VERSION)
    ],
    "committed": [
        offsets.encode_committed({("g", "t"): {0: 12, 1: 4711}, ("g", "%RETRY%g"): {0: 0}})
    ],
    "time spans": [
        statistics.encode_time_spans(dict.fromkeys(QUEUES, TimeSpan(1e9, None, 9.5)), 1e9)
    ],
    "consume queue": [pull.encode_consume_queue(ConsumeQueue(1, 9, (Place(897, 226, 98),) * 2))],
    "topic stats": [
        statistics.encode_topic_stats(dict.fromkeys(QUEUES, statistics.TopicOffset(1, 9, 1e9)))
    ],
    "consume stats": [
        statistics.encode_consume_stats(dict.fromkeys(QUEUES, statistics.OffsetPair(9, 7, 8, 1e9)))
    ],
    "connections": [statistics.encode_connections(_CONNECTIONS)],
    "heartbeat": [
        heartbeat.encode_heartbeat(
            heartbeat.Heartbeat(
                "c1",
                (heartbeat.ProducerData("p"),),
                (heartbeat.ConsumerData("g", (SUBSCRIPTION,)),),
            )
        )
    ],
    "running info": [encode_running_info(_RUNNING)],
    "reset": [rb.encode_reset(_OFFSETS), rb.encode_reset_list(_OFFSETS)],
    "member offsets": [rb.encode_member_offsets(_OFFSETS)],
    "offsets of members": [rb.encode_offsets_of_members({"c1": _OFFSETS, "c2": {}})],
    "direct result": [encode_direct_result(DirectResult(DirectOutcome.LATER, False, "why", 1.5))],
    "group config": [encode_group_config(GroupConfig(name="g"))],
    "filter check": [encode_filter_check(FilterCheck("c1", "g", SUBSCRIPTION))],
    "topic config": [
        encode_topic_config(
            TopicConfig(name="t", read_queues=4, write_queues=4, attributes={"a": "b"})
        )
    ],
}

PROPERTIES = [
    encode_properties({"UNIQ_KEY": "0A" * 16, "TAGS": "paid", "__SHARDINGKEY": "order-1"}).encode(),
    encode_properties({"KEYS": "k1 k2", "Preis": "12 €"}).encode(),
]
BATCHES = [
    encode_batch([(b"one", PROPERTIES[0].decode(), 0), (b"two" * 9, PROPERTIES[1].decode(), 3)]),
    encode_batch([(b"", "", 0)] * 4),
]
_ENTRY = Entry(
    owner="c1", token=4711, number=3, previous=4712, epoch=2, low=10, previous_low=9,
    runs=((12, 15), (17, 18)), chunks=1, parked=(ParkedKey("order-1", 11, 3, 2, 900),),
    released=("order-2", 7), commands=4, deaths=1, suspects=((12, 1),),
)  # fmt: skip
STATE_RECORDS = [
    encode_record(record)
    for record in (Acquire("c1"), Confirm("c1", 4711), Trying("c1", 4711, 12), _ENTRY)
]
_CONTROLS = (
    Command("id", Verb.DROP, "order-1", "c1", 1_700_000_000_000),
    Result("id", True, 3, 12, "why", ((12, "ok"), (13, "ValueError"))),
    Released("order-1", 12, 4711),
)
CONTROL_RECORDS = [control_message(record).body for record in _CONTROLS]
ORIGINAL = ReceivedMessage(
    QUEUES[0], 12, b"body", {"TAGS": "paid", "DELAY": "3", "KEYS": "k"}, "id-1", "0A" * 16,
    1e9, 1e9, "10.0.0.1:1", "10.0.0.2:2", 0, 0, 0, 4096, 200,
)  # fmt: skip
PARKED = park_message(
    ORIGINAL,
    ParkDetails(
        key="order-1", reason="why", attempts=3, fingerprint="f", parked_at=1e9, token=4711
    ),
)


def header_classes():
    """Every header class of the protocol: of a request, which has its code, or of a reply."""
    modules = (groups, heartbeat, locks, members, offsets, pull, route, send, statistics, topics)
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type) and is_dataclass(value)
    }
    asked = (it for it in found if isinstance(getattr(it, "code", None), RequestCode))
    headers = [*asked, *(it for it in found if it.__name__.endswith("Reply"))]
    return sorted(headers, key=lambda cls: cls.__name__)


def header_of(cls):
    """A header with every field filled in."""
    hints = get_type_hints(cls)
    sample = {str: "orders", int: 4711, bool: True}
    kinds = {
        f.name: next((t for t in get_args(hints[f.name]) if t in sample), hints[f.name])
        for f in fields(cls)
    }
    return cls(**{name: sample[kind] for name, kind in kinds.items()})


def command_of(cls):
    """A command that carries such a header."""
    return request(getattr(cls, "code", 0), to_ext(header_of(cls)), b"body")


JSON_HEADERS = {cls: write_json_header(command_of(cls)) for cls in header_classes()}
FRAMES = [
    encode_frame(command_of(cls), serializer)
    for cls in header_classes()[::4]
    for serializer in Serializer
]
BODIES = [b"", b"body" * 20, BATCHES[0], zlib.compress(b"\0" * 100_000)]
