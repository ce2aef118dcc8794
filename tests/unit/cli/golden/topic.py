"""`orderly topic create|list|show`: what is asked for and what is shown."""

from contextlib import contextmanager
from types import SimpleNamespace

from orderly.errors import ConfigError, RequestTimeout
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.topics import TopicConfig
from tests.unit.cli.golden.transcript import Table, client_is

BOTH = Permission.READ | Permission.WRITE
ROUTE = TopicRoute(
    "orders",
    (QueueData("b", 4, 0, Permission.READ), QueueData("a", 8, 8, BOTH)),
    (BrokerData("a", "c1", {0: "10.0.0.1:10911"}), BrokerData("b", "c1", {1: "10.0.0.2:10911"})),
)
FIFO = TopicConfig(
    name="orders", read_queues=8, write_queues=8, attributes={"message.type": "FIFO"}
)
NAMES = ("b", "%RETRY%g", "%DLQ%g", "TBW102", "broker-a", "C", "a", "rmq_sys_x")
OF_SHOP = ("shop%orders", "bank%orders", "%RETRY%shop%g", "shopping")


@contextmanager
def world(names=NAMES, silent=None):
    """Topics, one of which is on a master and on a broker whose master is down or `silent`."""
    asked = []

    def create(name, queues, *, order, cluster, message_type):
        of = "" if cluster is None else f" of {cluster}"
        asked.append(f"{name}{of}: {queues}, order {order}, type {message_type}")
        if queues == 5:
            raise ConfigError("orders already exists, with queues a: 8; wanted: a: 5")
        return queues != 8

    def config(_topic, broker):
        if broker.broker_name == "b" and silent:
            raise silent
        return FIFO if broker.broker_name == "a" else None

    admin = SimpleNamespace(
        create_topic=create,
        topic_config=config,
        topics=lambda: list(names),
        cluster=lambda: SimpleNamespace(brokers={"broker-a": None}, clusters={"C": None}),
    )
    with client_is(SimpleNamespace(admin=admin, routes=SimpleNamespace(get=lambda _: ROUTE))):
        yield asked


TABLE = Table(__file__, world, {
    "b is silent": {"silent": RequestTimeout("no reply\x1b[31m")},
    "with a shop": {"names": NAMES + OF_SHOP},
})  # fmt: skip
