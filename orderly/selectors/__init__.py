"""Selectors: they choose the queue of a message. Pure: values in, a queue out.

A selector is any callable `(queues, message, arg) -> queue`. `queues` is the topic's list of
queues, in the order in which every producer counts them (see `layout`). `arg` is the message's
sharding key, unless the sender passed something else.
"""

from orderly.protocol.java_string import java_string_hash
from orderly.selectors.choice import (
    KEYED,
    RandomQueue,
    RoundRobin,
    Rule,
    Selector,
    SingleQueue,
    choose,
    lane_of,
    single_queue,
)
from orderly.selectors.keyed import cpp_hash_mod, go_hash_mod, hash_mod, numeric_mod, proxy_hash
from orderly.selectors.layout import Layout, check_layout, layout_of, parse_layout, queues_of

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
