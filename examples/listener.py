"""One function per message: retried in place, then its queue waits, then it is a dead letter.

    orderly broker start
    ORDERLY_NAMESRV=localhost:9876 python examples/listener.py

Three orders are shipped. The carrier fails now and then, which a retry mends; order-2 has no
address, which nothing mends: it goes to the dead letters (`orderly tail %DLQ%<group>` shows it).
"""

from __future__ import annotations

import threading
import time

from orderly import (
    Ack,
    Client,
    ConsumerConfig,
    DeadLetter,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    ReceivedMessage,
)
from orderly.listener import Attempt, Listener, Outcome, Retry

STEPS = ("created", "packed", "shipped")
ORDERS = {"order-1": "Rome", "order-2": "", "order-3": "Oslo"}
settled = threading.Semaphore(0)


def ship(message: ReceivedMessage, attempt: Attempt) -> Outcome:
    """Handle one message; whatever is not Ack() comes again."""
    order, step = message.sharding_key or "", message.body.decode()
    if step == "shipped" and not ORDERS[order]:
        settled.release()
        return DeadLetter("no address")
    if step == "packed" and attempt.number < 3:
        raise ConnectionError("the carrier does not answer")
    print(order, step, f"(attempt {attempt.number})")
    if step == "shipped":
        settled.release()
    return Ack()


def main() -> None:
    """Send three steps of each order, and consume them until all orders have been seen."""
    name = f"listener-{time.time_ns():x}"
    with Client() as client, OrderlyProducer(client=client) as producer:
        client.admin.create_topic(name, 4)
        for step in STEPS:
            for order in ORDERS:
                producer.send(Message(name, step.encode(), sharding_key=order))
        retry = Retry(attempts=3, first_wait=0.1, fatal=(KeyError,))
        listener = Listener(ship, retry=retry, suspend=0.5, limit=5, then=DeadLetter)
        config = ConsumerConfig(consume_from="first")
        consumer = OrderlyConsumer(name, listener, client=client, config=config)
        with consumer.subscribe(name):
            for _ in ORDERS:
                settled.acquire()
    print(f"closed; dead letters: orderly tail %DLQ%{name}")


if __name__ == "__main__":
    main()
