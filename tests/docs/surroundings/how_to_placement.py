"""docs/how-to/placement.md: 60 orders, first sent through a 5.x proxy, then by Java's rule."""

from orderly import Message
from orderly.selectors import hash_mod, proxy_hash
from tests.support.waiting import patient_producer

TOPICS = {"orders": 8}


def before(page, block):
    if block.tag == "console":
        for selector in (proxy_hash, hash_mod):
            with patient_producer(page.namesrv, selector=selector) as producer:
                for number in range(1, 61):
                    producer.submit(Message("orders", b"paid", sharding_key=f"order-{number}"))


def check(page):
    page.names["producer"].close()
