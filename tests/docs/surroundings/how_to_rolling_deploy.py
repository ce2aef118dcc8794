"""docs/how-to/rolling-deploy.md: a topic; the documented port may be taken here."""

TOPICS = {"orders": 4}
REPLACE = {"Probe(8080": "Probe(0"}


def before(page, block):
    if "describe" in block.text:
        page.send("orders", "order-1001", b"created")
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
