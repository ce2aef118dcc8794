"""The options of the sink, as a table: the one place that knows their names."""

from __future__ import annotations

from orderly.config import MIB
from orderly.selectors import KEYED
from orderly.spark.options import values
from orderly.spark.options.table import OPTIONS as SOURCE_OPTIONS
from orderly.spark.options.table import Option

KIB = 1024
SELECTORS = (*KEYED, "single_queue", "round_robin")
_CONNECTING = ("namesrv", "settingsFile", "settingsContext")

OPTIONS: tuple[Option, ...] = (
    *(option for option in SOURCE_OPTIONS if option.name in _CONNECTING),
    Option("topic", values.topic, "", "the topic to send to; it must exist"),
    Option(
        "selector",
        values.one_of(*SELECTORS),
        "`hash_mod`",
        "which queue for a key: `hash_mod` (Java's SelectMessageQueueByHash), `numeric_mod` (the"
        " key is a number), `proxy_hash`, `cpp_hash_mod`, `go_hash_mod` (as producers in other"
        " languages, [placement](placement.md)), `single_queue` (all rows in one order),"
        " `round_robin` (no key, no order)",
    ),
    Option(
        "keyColumn",
        values.text,
        "`sharding_key`",
        "the sharding key, a string or an integer: rows with equal keys keep their order",
    ),
    Option(
        "orderBy",
        values.text,
        "",
        "the column that numbers a key's rows, an integer, date or timestamp: it must rise from"
        " row to row. Needed for all selectors but `round_robin`",
    ),
    Option("bodyColumn", values.text, "`body`", "the message itself, binary or string"),
    Option("tagColumn", values.text, "`tag`, if there", "the message's tag, or null"),
    Option(
        "keysColumn",
        values.text,
        "`keys`, if there",
        "index words between spaces, or null",
    ),
    Option(
        "propertiesColumn",
        values.text,
        "`properties`, if there",
        "further properties, a map of strings; names of RocketMQ's own are refused",
    ),
    Option(
        "idColumn",
        values.text,
        "",
        "what a repeated message is recognised by, unique for each row. Without it: a hash of key,"
        " `orderBy` and body, and a key's `orderBy` may not repeat",
    ),
    Option(
        "layout",
        values.text,
        "`strict`",
        "`strict` (all tasks of a write send by the layout that the driver saw), a pin such as"
        " `broker-a:8;broker-b:8` (the same for all producers of the topic), or `loose` (each task"
        " by the route it finds: keys may change their queue)",
    ),
    Option(
        "maxBatchBytes",
        values.whole(64 * KIB, 4 * MIB),
        f"`{512 * KIB}`",
        "bytes in one request; at most the broker's maxMessageSize",
    ),
)
