"""What the demo needs before it can send: a broker and a topic."""

from __future__ import annotations

import secrets
import time
from contextlib import ExitStack
from datetime import UTC, datetime

from orderly.cli.demo.screen import Screen
from orderly.client import Client
from orderly.config import MIB
from orderly.errors import OrderlyError
from orderly.model import TopicRoute

ROUTE_PATIENCE = 10.0  # seconds until the name server must know a topic just created


def start_broker(stack: ExitStack, screen: Screen) -> str:
    """Start one that ends with `stack`; returns the name server's address."""
    from orderly.testing.embedded import EmbeddedBroker  # noqa: PLC0415  --namesrv needs none
    from orderly.testing.jars import fetch_jars, listed_jars  # noqa: PLC0415
    from orderly.testing.java import find_java  # noqa: PLC0415

    size = sum(jar.size for jar in listed_jars())
    screen.step(
        "Start a broker",
        "A real RocketMQ name server and broker start on this machine, on free ports of 127.0.0.1,"
        f" and end with the demo. Their jars are downloaded once ({size / MIB:.0f} MiB).",
    )
    find_java()
    started = time.monotonic()
    with screen.meter("download", size, "bytes") as meter:
        fetch_jars(progress=lambda present, _: meter(present))
    with screen.busy("starting name server and broker"):
        broker = stack.enter_context(EmbeddedBroker())
    screen.fact(
        f"RocketMQ runs; its name server is {broker.namesrv} ({time.monotonic() - started:.1f} s)"
    )
    return broker.namesrv


def create_topic(client: Client, queues: int, screen: Screen) -> TopicRoute:
    """Create a fresh topic; returns its route."""
    topic = f"orderly-demo-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    screen.step(
        "Create a topic",
        "A topic is split into queues. Order holds within a queue, so everything that must stay"
        " in order goes to the same one; different queues are handled side by side.",
    )
    client.admin.create_topic(topic, queues)
    route = _route(client, topic)
    screen.fact(f"topic {topic} with {len(route.write_queues())} queues")
    return route


def _route(client: Client, topic: str) -> TopicRoute:
    deadline = time.monotonic() + ROUTE_PATIENCE
    while True:
        try:
            return client.routes.refresh(topic)
        except OrderlyError:  # not yet there, or the name server is busy, as at its start
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
