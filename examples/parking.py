"""A bad message's key is parked, in order, while other keys go on; after the fix it is released.

    orderly broker start
    ORDERLY_NAMESRV=localhost:9876 python examples/parking.py

There are four orders with three steps each. Order-2 goes to a city that the program does not know.
No retry can help, so its message and the later ones are parked. Then the program learns the city
and releases order-2. In a real service you deploy a fix and run
`orderly parked release GROUP order-2`.
"""

from __future__ import annotations

import threading
import time

import orderly
from orderly import (
    Ack,
    Attempt,
    Client,
    ConsumerConfig,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
)
from orderly.monitoring.parked import ParkedMessages

STEPS = ("created", "packed", "shipped")
CITIES = {"order-1": "Oslo", "order-2": "Ys", "order-3": "Rome", "order-4": "Lima"}
known = {"Oslo", "Rome", "Lima"}
shipped = threading.Semaphore(0)


@orderly.listener(decode="json", on_error={LookupError: "park_key"}, on_poison="park_key")
def ship(step: dict[str, str], attempt: Attempt) -> Ack:
    """Handle one step of one order."""
    if step["city"] not in known:
        raise LookupError(step["city"])
    again = " (replayed)" if attempt.replayed else ""
    print(f"{attempt.key} {step['name']}{again}\n", end="")  # one write: other threads print, too
    if step["name"] == "shipped":
        shipped.release()
    return Ack()


def parked_by_now(parked: ParkedMessages) -> list[tuple[str | int, int]]:
    """Return the keys, and how many of their messages wait; see also `orderly parked list`."""
    return [(report.key, report.messages) for report in parked.list().keys]


def main() -> None:
    """Send all steps; when three orders are shipped, fix and release the fourth."""
    name = f"parking-{time.time_ns():x}"
    with Client() as client, OrderlyProducer(client=client) as producer:
        client.admin.create_topic(name, 4)
        for step in STEPS:
            for order, city in CITIES.items():
                body = f'{{"name": "{step}", "city": "{city}"}}'.encode()
                producer.send(Message(name, body, sharding_key=order))
        config = ConsumerConfig(consume_from="first", order="key")
        parked = ParkedMessages(client, name)
        with OrderlyConsumer(name, ship, client=client, config=config).subscribe(name):
            for _ in known:
                shipped.acquire()
            while ("order-2", 3) not in (waiting := parked_by_now(parked)):
                time.sleep(0.1)
            print(f"parked: {waiting}")
            known.add("Ys")
            for outcome in parked.release("order-2"):
                print(f"released: {outcome.settled} messages of {outcome.key}")


if __name__ == "__main__":
    main()
