"""docs/how-to/choose-a-key.md: a topic with some keys."""

from tests.docs.many_keys import send_keys

TOPICS = {"orders": 4}


def before(page, block):
    if block.number == 1:
        send_keys(page.namesrv, "orders", 120)
