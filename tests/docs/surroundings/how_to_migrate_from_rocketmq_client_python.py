"""docs/how-to/migrate-from-rocketmq-client-python.md: keys lie where C++ puts them."""

from orderly.selectors import cpp_hash_mod
from tests.docs.many_keys import send_keys

TOPICS = {"orders": 4}


def before(page, block):
    if block.number == 1:
        send_keys(page.namesrv, "orders", 60, selector=cpp_hash_mod)
