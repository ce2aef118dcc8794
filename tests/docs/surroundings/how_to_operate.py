"""docs/how-to/operate.md: a group that has handled all, then stops; the exporter scans once."""

REPLACE = {"$ orderly exporter\n": "$ orderly backlog list -o prometheus\n"}


def before(page, block):
    if "orderly backlog explain" in block.text:
        page.consume("shipping", "orders")
        page.finished("shipping", "orders")
