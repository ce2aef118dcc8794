"""docs/how-to/alerts.md: a group to look at."""

TOPICS = {"orders": 4}


def before(page, block):
    page.send("orders", "order-1001", b"created", b"paid")
    page.consume("shipping", "orders")
    page.finished("shipping", "orders")
