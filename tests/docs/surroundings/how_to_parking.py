"""docs/how-to/parking.md: of order-17 the account is not known, of order-19 nobody can say."""

from orderly.monitoring.parked import ParkedMessages
from tests.support.waiting import eventually, patient_client

TOPICS = {"orders": 4}


def known(message):
    if message.sharding_key == "order-19":
        raise ConnectionError("the accounts are away")
    return message.sharding_key != "order-17"


def before(page, block):
    if "parked add shipping" in block.text:
        page.send("orders", "order-19", b"created", b"paid", b"packed")
        with patient_client(page.namesrv) as client:
            operator = ParkedMessages(client, "shipping", "orders")
            eventually(lambda: waiting(operator) == [3], 60)


def waiting(operator):
    return [outcome.settled for outcome in operator.add("order-19", dry_run=True).outcomes]


def after(page, block):
    if block.number == 1:
        page.send("orders", "order-17", b"created", b"paid", b"packed", b"shipped")
        page.send("orders", "order-18", b"created")
        page.consume("shipping", "orders", page.names["handle"], order="key", batch_size=1)
        page.finished("shipping", "orders")
