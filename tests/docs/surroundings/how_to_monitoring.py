"""docs/how-to/monitoring.md: a group that has handled everything, with one member."""

TOPICS = {"orders": 4}


def before(page, block):
    if block.number == 1:
        page.send("orders", "order-1001", b"created", b"paid")
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
