"""docs/how-to/replay.md: a group with a parked key, a key given up, and some history."""

import threading

from orderly import Ack, DeadLetter, Park

TOPICS = {"orders": 4}
mended = threading.Event()


def ship(messages, context):
    key = context.key
    if key == "order-9" and not mended.is_set():
        return Park("no price")
    if key == "order-8" and messages[0].body == b"paid":
        return DeadLetter("no account")
    return Ack()


ship.dry_run = True


def before(page, block):
    if block.number == 1:
        for key in ("order-7", "order-8", "order-9"):
            page.send("orders", key, b"created", b"paid")
        page.consume("shipping", "orders", ship, order="key", batch_size=1)
        page.finished("shipping", "orders")
        mended.set()
