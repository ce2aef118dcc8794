"""docs/how-to/parking.md: of order-17 the account is not known."""

TOPICS = {"orders": 4}


def known(message):
    return message.sharding_key != "order-17"


def after(page, block):
    if block.number == 1:
        page.send("orders", "order-17", b"created", b"paid", b"packed", b"shipped")
        page.send("orders", "order-18", b"created")
        page.consume("shipping", "orders", page.names["handle"], order="key", batch_size=1)
        page.finished("shipping", "orders")
