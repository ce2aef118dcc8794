"""Which queue a message goes to. Pure: values in, a queue out.

A selector is any callable `(queues, message, arg) -> queue`; `queues` is the topic's list in the
order every producer counts it (see `layout`), `arg` is the message's sharding key unless the
sender passed something else.
"""

from orderly.protocol.java_string import java_string_hash
from orderly.selectors.choice import Selector, choose, lane_of
from orderly.selectors.cpp import cpp_hash_mod
from orderly.selectors.go import go_hash_mod
from orderly.selectors.keyed import hash_mod, numeric_mod
from orderly.selectors.layout import Layout, check_layout, layout_of, parse_layout, queues_of
from orderly.selectors.proxy import proxy_hash
from orderly.selectors.rules import KEYED, Rule
from orderly.selectors.unkeyed import (
    RandomQueue,
    RoundRobin,
    SingleQueue,
    single_queue,
)

__all__ = [
    "KEYED",
    "Layout",
    "RandomQueue",
    "RoundRobin",
    "Rule",
    "Selector",
    "SingleQueue",
    "check_layout",
    "choose",
    "cpp_hash_mod",
    "go_hash_mod",
    "hash_mod",
    "java_string_hash",
    "lane_of",
    "layout_of",
    "numeric_mod",
    "parse_layout",
    "proxy_hash",
    "queues_of",
    "single_queue",
]
