"""Right values for every argument, objects to call, and how to see that they are as before."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from orderly import (
    Ack,
    AsyncListener,
    Client,
    ClientConfig,
    ConsumeContext,
    Listener,
    Message,
    MessageQueue,
    OrderlyConsumer,
    OrderlyProducer,
)
from orderly.client.admin import Admin
from orderly.client.group_admin import GroupAdmin
from orderly.namespace import is_retry_topic
from orderly.once import Once, RedisOnce
from orderly.ordering.allocation import averagely
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.topics import TopicConfig
from orderly.selectors import hash_mod, parse_layout
from orderly.spark.offsets import QueueRange
from orderly.telemetry import TracedProducer
from orderly.testing import Cut, Delay, EmbeddedCluster, EmbeddedProxy, FakeBroker
from tests.support.messages import message as received
from tests.support.waiting import eventually
from tests.unit.misuse.public import Public

QUEUE = MessageQueue("orders", "broker-a", 0)
NOBODY = "127.0.0.1:1"


def handle(_messages, _context):
    return Ack()


def ship(_message, _attempt):
    return Ack()


async def ship_async(_message, _attempt):
    return Ack()


class World:
    """A fake broker with a consumer, a producer and a client, all of which run."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.broker = stack.enter_context(FakeBroker())
        self.broker.create_topic("orders", queues=2)
        self.client = stack.enter_context(Client(namesrv=self.broker.namesrv))
        self.producer = stack.enter_context(OrderlyProducer(client=self.client))
        self.traced = stack.enter_context(TracedProducer("traced", client=self.client))
        self.seen: list[bytes] = []
        self.consumer = OrderlyConsumer("shipping", self._handle, client=self.client)
        stack.enter_context(self.consumer.subscribe("orders"))
        eventually(lambda: len(self.consumer.assignment) == 2)
        self.engine = create_engine("sqlite://")
        stack.callback(self.engine.dispose)
        self.connection = stack.enter_context(self.engine.connect())
        self.cluster = EmbeddedCluster()
        self._async_connection = create_async_engine("sqlite+aiosqlite://").connect()
        self._redis, self._async_redis = Redis(), AsyncRedis()  # which connect when they are used
        self._member = next(iter(self.client.admin.cluster().brokers.values()))
        self._route = self.client.routes.get("orders")
        self.before = self._state()

    def _handle(self, messages, _context):
        self.seen += [message.body for message in messages]
        return Ack()

    def _state(self) -> object:
        consumer = self.consumer
        return (
            consumer.state,
            consumer.paused,
            [name for name in self.client.admin.topics() if not is_retry_topic(name)],
            {topic: each.expression for topic, each in consumer._session.subscriptions.items()},
        )

    def unchanged(self) -> bool:
        """Whether all is as it was at the beginning, and the producer takes messages."""
        self.producer.send(Message("orders", b"goes on", sharding_key="k"))
        self.traced.send(Message("orders", b"goes on", sharding_key="k"))
        return self._state() == self.before

    def still_works(self) -> None:
        """A message goes through, in the end."""
        self.producer.send(Message("orders", b"the end", sharding_key="k"))
        eventually(lambda: b"the end" in self.seen)

    # --- what is called ------------------------------------------------------------------------

    def bound(self, public: Public) -> Callable[..., Any]:
        """The callable, a method on an object of ours."""
        if public.owner is None:
            return public.call
        return getattr(self._subject(public.owner), public.call.__name__)

    def _subject(self, owner: type) -> Any:
        subjects = {
            OrderlyConsumer: self.consumer,
            OrderlyProducer: self.producer,
            TracedProducer: self.traced,
            Client: self.client,
            Admin: self.client.admin,
            GroupAdmin: self.client.groups,
            FakeBroker: self.broker,
            EmbeddedCluster: self.cluster,
            EmbeddedProxy: EmbeddedProxy(NOBODY),
            ConsumeContext: ConsumeContext(QUEUE),
            Listener: Listener(ship),
            AsyncListener: AsyncListener(ship_async),
            Once: Once(),
            RedisOnce: RedisOnce(),
        }
        assert owner in subjects, f"make an object of {owner.__name__} for its methods' test"
        return subjects[owner]

    # --- what it is called with ----------------------------------------------------------------

    def right(self, public: Public) -> dict[str, Any]:
        """The arguments it cannot do without."""
        at_nobody = {"namesrv": NOBODY} if public.call in _CONNECTING else {}
        return at_nobody | {
            each.name: self._right_value(public, each)
            for each in public.parameters
            if each.default is inspect.Parameter.empty
            and each.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        }

    def _right_value(self, public: Public, parameter: inspect.Parameter) -> Any:
        name = parameter.name
        by_callable: dict[str, dict[str, Any]] = {
            "orderly.AsyncListener": {"function": ship_async},
            "orderly.once.Once.apply_async": {"connection": self._async_connection},
            "orderly.once.RedisOnce.apply_async": {"client": self._async_redis},
            "orderly.once.RedisOnce.apply": {"client": self._redis},
            "orderly.client.admin.Admin.put_topic": {"config": _CONFIG},
            "orderly.client.group_admin.GroupAdmin.group_config": {"broker": "broker-a"},
            "orderly.client.admin.Admin.grow_topic": {"queues": 2},
            "orderly.selectors.numeric_mod": {"arg": 5},
            "orderly.testing.fake.faults.Fault": {"action": Delay(1)},
            "orderly.testing.EmbeddedProxy": {"namesrv": NOBODY},
            "orderly.testing.FakeBroker.create_topic": {"name": "orders"},
            "orderly.Message": {"body": b"x"},
            "orderly.Message.of_json": {"value": []},
            "orderly.OrderlyProducer.send_json": {"value": [], "key": "k"},
            "orderly.telemetry.TracedProducer.send_json": {"value": [], "key": "k"},
        }
        values = self._values() | by_callable.get(public.name, {})
        if parameter.annotation == "Message":
            return sent()
        assert name in values, f"give {public.name} a right value for {name}"
        return values[name]

    def _values(self) -> dict[str, Any]:
        return {
            "action": Cut(),
            "arg": "k",
            "broker": self._member,
            "brokers": (("broker-a", 2),),
            "client": self.client,
            "client_id": self.client.client_id,
            "code": 10,
            "connection": self.connection,
            "consumer": self.consumer,
            "context": ConsumeContext(QUEUE),
            "df": SimpleNamespace(isStreaming=False, columns=[]),
            "events": [],
            "function": ship,
            "group": "shipping",
            "handler": handle,
            "inner": averagely,
            "key": "k",
            "layout": parse_layout("broker-a:2"),
            "message": received(0),
            "name": "broker-a",
            "offsets": {},
            "options": {"topic": "orders"},
            "order_by": "seq",
            "pick": lambda _: 0,
            "pin": parse_layout("broker-a:2"),
            "pinned": [QueueRange(QUEUE, 0, 1)],
            "port": 0,
            "position": datetime.now(UTC),
            "present": None,
            "queue": QUEUE,
            "queues": (QUEUE,),
            "read": lambda: None,
            "reason": "why",
            "room_of_broker": str,
            "room_of_member": str,
            "rooms": ["east"],
            "route": self._route,
            "seconds": 1,
            "selector": hash_mod,
            "sent": [],
            "spark": SimpleNamespace(dataSource=None, read=None),
            "subscription": Subscription("orders"),
            "text": "broker-a:2",
            "topic": "orders",
        }


_CONFIG = TopicConfig(name="orders", read_queues=2, write_queues=2)
_CONNECTING = (Client, ClientConfig, OrderlyConsumer, OrderlyProducer, TracedProducer)


def sent() -> Message:
    """A message that every producer takes."""
    return Message("orders", b"x", sharding_key="k")
