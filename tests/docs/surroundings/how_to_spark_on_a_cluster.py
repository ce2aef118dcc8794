"""docs/how-to/spark-on-a-cluster.md: a topic with messages."""

from tests.docs.many_keys import send_keys

TOPICS = {"orders": 4}


def before(page, block):
    if "spark" in block.marks:
        send_keys(page.namesrv, "orders", 20)


def after(page, block):
    if "spark" in block.marks:
        assert page.names["orders"].count() == 20
