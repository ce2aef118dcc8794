"""docs/how-to/spark.md: orders with a number each, flights, and a group that parks and gives up."""

import json
from pathlib import Path

from orderly import Ack, DeadLetter, Message, Park
from orderly.monitoring.dead_letters import DeadLetters
from orderly.monitoring.parked import ParkedMessages
from tests.support.waiting import eventually, patient_client, patient_producer

TOPICS = {"orders": 4, "flights": 4, "flights-again": 4, "orders-again": 4}
ORDERS = 60
REPLACE = {}


def before(page, block):
    # Whole: the JVM's own folder is where it was started, which is not the page's.
    page.special["REPLACE"]["/archive/"] = f"{Path.cwd()}/archive/"
    if block.number == 1 and "spark" in block.marks:
        fill(page)
    elif "park_topic" in block.text:
        fail(page)
    elif "jq -c" in block.text:
        read = json.loads(Path("report/result.json").read_text())["read"]
        for name in ("startingOffsets", "endingOffsets"):
            offsets = json.dumps(read[name], separators=(",", ":"))
            page.special["REPLACE"][f'"$(jq -c .read.{name} report/result.json)"'] = f"'{offsets}'"


def after(page, block):
    if "count_distinct" in block.text and "keys" in page.names:
        found = page.names["keys"].collect()
        counts = {row.sharding_key: (row.messages, row.queues) for row in found}
        assert counts == {f"o-{key}": (ORDERS // 20, 1) for key in range(20)}
    if "park_topic" in block.text:
        found = page.names["failures"].groupBy("failure").count().collect()
        counts = {row.failure: row["count"] for row in found}
        assert counts.pop("%DLQ%shipping made") == 1
        assert counts.pop("no such account") == 1
        assert sum(counts.values()) == 2, "the later ones of the parked key"
    if "isEmpty" in block.text:
        assert page.names["archive"].count() == ORDERS
    if "spark replay" in block.text and "--send" in block.text:
        figures = json.loads(Path("replay-1/result.json").read_text())["figures"]
        assert (figures["messages"], figures["sent"]) == (3, 3)


def fill(page):
    with patient_producer(page.namesrv) as producer:
        for number in range(ORDERS):
            key, own = f"o-{number % 20}", {"seq": str(number // 20)}
            producer.submit(Message("orders", b"paid", key, "made", (), own))
            producer.submit(Message("flights", b"landed", sharding_key=key))


def fail(page):
    """Park one key, and give up one message of another."""

    def handle(messages, _):
        (message,) = messages
        if message.sharding_key == "o-1":
            return Park("no such account")
        if message.sharding_key == "o-2" and message.properties["seq"] == "0":
            return DeadLetter("cannot be shipped")
        return Ack()

    consumer = page.consume("shipping", "orders", handle, order="key")
    page.finished("shipping", "orders")
    consumer.close()
    with patient_client(page.namesrv) as client:
        parked = ParkedMessages(client, "shipping")
        eventually(lambda: [it.messages for it in parked.list().keys] == [3])
        assert len(DeadLetters(client, "shipping").list()) == 1
