"""`orderly send`: what becomes a message, and what is told of where it lies."""

from concurrent.futures import Future
from contextlib import contextmanager
from unittest import mock

from orderly.errors import SendFailed
from orderly.model import (
    BrokerData,
    MessageQueue,
    Permission,
    QueueData,
    SendResult,
    TopicRoute,
)
from tests.unit.cli.golden.transcript import Table, client_is

QUEUES = (QueueData("broker-a", 4, 4, Permission.READ | Permission.WRITE),)
ROUTE = TopicRoute("orders", QUEUES, (BrokerData("broker-a", "c", {0: "127.0.0.1:1"}),))


@contextmanager
def world():
    """A producer that stores what is not `refused`; tells its pin and what it was given."""
    asked = []

    def submit(message):
        future = Future()
        if message.body == b"refused":
            future.set_exception(SendFailed("not stored: disk full"))
        else:
            at = len(asked) - 1
            queue = MessageQueue(message.topic, "broker-a", 3)
            future.set_result(SendResult(queue, at, f"ID{at}", "x"))
        told = (message.topic, message.body, message.sharding_key, message.tags)
        asked.append(f"{told}, {message.properties}")
        return future

    @contextmanager
    def producer(*, client, config):
        asked.append(f"pinned to {config.layout}")
        yield mock.Mock(submit=submit)

    client = mock.Mock()
    client.routes.get.return_value = ROUTE
    with client_is(client), mock.patch("orderly.producer.OrderlyProducer", producer):
        yield asked


TABLE = Table(__file__, world, {
    "stdin is a body of bytes": {"stdin": b"two\nlines\n\xff"},
    "stdin has three lines": {"stdin": b"one\r\ntwo\nthree"},
    "lines have keys": {"stdin": b"order-1:created\norder-2:a:b\n"},
    "keys end with a tab": {"stdin": b"order-1\tcreated\n"},
    "line 2 has no key": {"stdin": b"order-1:created\ncreated\n"},
    "line 2 of stdin is empty": {"stdin": b"one\n\ntwo\n"},
})  # fmt: skip
