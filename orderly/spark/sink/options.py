"""A user's options for a write, read into checked values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ConfigError
from orderly.selectors import parse_layout
from orderly.spark.connecting import Access
from orderly.spark.options.lookup import find
from orderly.spark.sink.option_table import KIB, OPTIONS

_SPARKS_OWN = frozenset({"checkpointlocation", "queryname"})  # of a stream; handed on with ours
LOOSE = "loose"
DEFAULT = "hash_mod"
SINGLE_QUEUE, ROUND_ROBIN = "single_queue", "round_robin"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write, checked. Picklable, without secrets.

    Attributes:
        topic: where to.
        access: how to reach the cluster.
        selector: one of option_table.SELECTORS.
        layout: "strict", "loose" or a pin.
        max_batch_bytes: of one request.
        columns: by option name, those that were given.
    """

    topic: str
    access: Access
    selector: str
    layout: str
    max_batch_bytes: int
    columns: Mapping[str, str]


def parse(given: Mapping[str, str]) -> WriteOptions:
    """Read the options of a write.

    Args:
        given: as Spark hands them on, or as a user writes them.

    Raises:
        ConfigError: an option that there is not, a value that it can't have, or no topic.
    """
    found = {}
    for name, text in given.items():
        if name.lower() in _SPARKS_OWN:
            continue
        option = find(name, OPTIONS)
        found[option.name] = option.read(text, option.name)
    if "topic" not in found:
        raise ConfigError("a write needs option('topic', …): where to send the rows")
    return WriteOptions(
        topic=found["topic"][0],
        access=Access(
            found.get("namesrv", ""),
            found.get("settingsFile", ""),
            found.get("settingsContext", ""),
        ),
        selector=found.get("selector", DEFAULT),
        layout=_layout(found),
        max_batch_bytes=found.get("maxBatchBytes", 512 * KIB),
        columns={name: found[name] for name in _COLUMNS if found.get(name)},
    )


_COLUMNS = [o.name for o in OPTIONS if o.name.endswith("Column") or o.name == "orderBy"]


def _layout(found: Mapping[str, Any]) -> str:
    text: str = found.get("layout", "strict")
    if text not in ("strict", LOOSE):
        parse_layout(text)
    return text
