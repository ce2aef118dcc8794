"""docs/how-to/upgrade.md: a group that is well, and a project with a test."""

TOPICS = {"orders": 4}


def before(page, block):
    if block.number == 1:
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
        text = "def test_it(orderly_fake):\n    orderly_fake.create_topic('orders')\n"
        (page.folder / "test_shipping.py").write_text(text)
