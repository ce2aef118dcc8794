"""docs/how-to/scale-out.md: a group with one member, and a topic to grow."""

from tests.docs.many_keys import send_keys

TOPICS = {"orders": 4}


def before(page, block):
    if block.number == 1:
        send_keys(page.namesrv, "orders", 120)
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
