"""One function per message: retried, judged by what other orders do, and set aside if it is bad.

    orderly broker start
    ORDERLY_NAMESRV=localhost:9876 python examples/listener.py

Four orders are shipped. Sometimes the carrier does not answer. Then a retry helps, and meanwhile
the other orders go on. One step of order-2 is not JSON, so no retry can help. It goes to the
group's dead letters, and the event says that the order has a gap.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TypedDict

import tenacity

import orderly
from orderly import (
    Ack,
    Attempt,
    Client,
    ConsumerConfig,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Outcome,
    Retry,
    Skip,
)

STEPS = ("created", "packed", "shipped")
ORDERS = ("order-1", "order-2", "order-3", "order-4")
shipped = threading.Semaphore(0)


class Step(TypedDict):
    """What a body says."""

    name: str


@orderly.listener(
    decode="json",
    retry=Retry(
        stop=tenacity.stop_after_attempt(5),
        wait=tenacity.wait_exponential(multiplier=0.1),
        retry=tenacity.retry_if_exception_type(OSError),
    ),
    on_poison="dead_letter",
)
def ship(step: Step, attempt: Attempt) -> Outcome:
    """Handle one step; it comes again unless this returns Ack() or Skip()."""
    if step["name"] not in STEPS:
        return Skip("not for us")
    if step["name"] == "packed" and attempt.number < 3:
        raise ConnectionError("the carrier does not answer")
    # One write: other threads print, too.
    print(f"{attempt.key} {step['name']} (attempt {attempt.number})\n", end="")
    if step["name"] == "shipped":
        shipped.release()
    return Ack()


def main() -> None:
    """Send three steps of each order, and consume them until all orders are shipped."""
    name = f"listener-{time.time_ns():x}"
    with Client() as client, OrderlyProducer(client=client) as producer:
        client.admin.create_topic(name, 4)
        for step in STEPS:
            for order in ORDERS:
                bad = (order, step) == ("order-2", "packed")
                body = b"{" if bad else json.dumps({"name": step}).encode()
                producer.send(Message(name, body, sharding_key=order))
        config = ConsumerConfig(consume_from="first", order="key")
        consumer = OrderlyConsumer(name, ship, client=client, config=config)
        with consumer.subscribe(name):
            for _ in ORDERS:
                shipped.acquire()
    print(f"closed; dead letters: orderly tail %DLQ%{name}")


if __name__ == "__main__":
    main()
