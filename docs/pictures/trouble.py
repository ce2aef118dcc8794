"""A local broker with some trouble on it, for a report to tell of."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from orderly import (
    Ack,
    Answer,
    ConsumeContext,
    ConsumerConfig,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Park,
    ReceivedMessage,
    Suspend,
)
from orderly.client import Client
from orderly.testing import EmbeddedBroker

PACE = 0.02  # seconds between messages of one topic
TOPICS = {"orders": 8, "payments": 4, "clicks": 4}


def _ship(_messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
    """Order 13's address cannot be read; all else is quick."""
    return Park("ValueError: no such postcode") if context.key == "order-13" else Ack()


def _book(messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> Answer:
    """One account's bank is down, so its queue waits."""
    return Suspend(5) if messages[0].sharding_key == "account-7" else Ack()


def _count(_messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> Answer:
    return Ack()


MEMBERS = (
    ("shipping", "orders", _ship, "key"),
    ("billing", "payments", _book, "queue"),
    ("invoices", "orders", _count, "queue"),
    ("analytics", "clicks", _count, "queue"),
)
GONE = "analytics"  # it is closed, and its backlog grows


@contextmanager
def troubled() -> Iterator[str]:
    """Yields the name server's address; traffic flows until the end."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        with Client(namesrv=broker.namesrv) as client:
            for topic, queues in TOPICS.items():
                client.admin.create_topic(topic, queues)
        over = threading.Event()
        producer = stack.enter_context(OrderlyProducer(namesrv=broker.namesrv))
        for name, topic, handler, order in MEMBERS:
            config = ConsumerConfig(consume_from="first", order=order)
            consumer = OrderlyConsumer(name, handler, namesrv=broker.namesrv, config=config)
            running = consumer.subscribe(topic)
            if name != GONE:
                stack.enter_context(running)
                continue
            producer.send(Message(topic, b"0", sharding_key="page-0"))
            with running:
                over.wait(8)  # it commits what it has, and leaves
        threads = [threading.Thread(target=_send, args=(producer, t, over)) for t in TOPICS]
        for thread in threads:
            thread.start()
        try:
            yield broker.namesrv
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _send(producer: OrderlyProducer, topic: str, over: threading.Event) -> None:
    key = {"orders": "order", "payments": "account", "clicks": "page"}[topic]
    for number in itertools.count():
        producer.submit(Message(topic, str(number).encode(), sharding_key=f"{key}-{number % 40}"))
        if over.wait(PACE):
            return
