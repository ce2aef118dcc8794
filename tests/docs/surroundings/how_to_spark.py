"""docs/how-to/spark.md: orders with a number each, and flights."""

import json
from pathlib import Path

from orderly import Message, OrderlyProducer

TOPICS = {"orders": 4, "flights": 4, "flights-again": 4}
REPLACE = {"/var/lib/backlogs": "."}


def before(page, block):
    if block.number == 1 and "spark" in block.marks:
        fill(page)
    if "jq -c" in block.text:
        read = json.loads(Path("report/result.json").read_text())["read"]
        for name in ("startingOffsets", "endingOffsets"):
            offsets = json.dumps(read[name], separators=(",", ":"))
            page.special["REPLACE"][f'"$(jq -c .read.{name} report/result.json)"'] = f"'{offsets}'"


def fill(page):
    with OrderlyProducer(namesrv=page.namesrv) as producer:
        for number in range(60):
            key, own = f"o-{number % 20}", {"seq": str(number // 20)}
            producer.submit(Message("orders", b"paid", sharding_key=key, properties=own))
            producer.submit(Message("flights", b"landed", sharding_key=key))
