"""docs/how-to/rolling-deploy.md: a topic, a free port."""

from orderly.testing.ports import free_port

TOPICS = {"orders": 4}
REPLACE = {"8080": str(free_port())}


def before(page, block):
    if "describe" in block.text:
        page.send("orders", "order-1001", b"created")
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
