"""A user's options, read into checked values.

Spark hands names on in lower case, so they are compared without regard to case. What is wrong is
refused before anything is asked of a broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.columns import DEFAULT_COLUMNS
from orderly.spark.options.lookup import find
from orderly.spark.options.positions import Edge, Moment, Position
from orderly.spark.options.table import BATCH, OPTIONS, STREAM, Option
from orderly.spark.reading.scan import Scan

_SELECTING = ("topic", "topics", "topicPattern", "assign")


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read: topics by name or by a pattern, or certain queues."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    queues: frozenset[MessageQueue] | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of one read, checked. Picklable, without secrets.

    Attributes:
        selection: topics or queues.
        start, end: where to begin and to end in each queue.
        namesrv, settings_file, settings_context: how to reach the cluster; "" where not given.
        min_partitions: 1: nobody asked for more than one a queue.
        max_offsets_per_trigger: None: no limit.
        fail_on_data_loss, pushdown: see the table.
        summary: whether rows are summaries, not messages.
        columns: read if the user gives no schema.
        columns_given: whether they were chosen by option.
        scan: what the readers of ranges need; its columns are `columns`.
    """

    selection: Selection
    start: Position
    end: Position
    namesrv: str
    settings_file: str
    settings_context: str
    min_partitions: int
    max_offsets_per_trigger: int | None
    fail_on_data_loss: bool
    pushdown: bool
    summary: bool
    columns_given: bool
    scan: Scan

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns read if the user gives no schema."""
        return self.scan.columns


def parse(given: Mapping[str, str], kind: str = BATCH) -> ReadOptions:
    """Read the options of a read.

    Args:
        given: as Spark hands them on, or as a user writes them.
        kind: BATCH or STREAM; "": not known yet.

    Raises:
        ConfigError: an option that there is not, a value that it can't have, or options that
            exclude each other.
    """
    values = {_option(name, kind).name: text for name, text in given.items()}
    found = {name: _option(name, kind).read(text, name) for name, text in values.items()}
    summary = found.get("emit") == "summary"
    _check_together(found, summary=summary)
    return ReadOptions(
        selection=_selection(found),
        start=_position(found, "starting", Edge.LATEST if kind == STREAM else Edge.EARLIEST),
        end=_position(found, "ending", Edge.LATEST),
        namesrv=found.get("namesrv", ""),
        settings_file=found.get("settingsFile", ""),
        settings_context=found.get("settingsContext", ""),
        min_partitions=found.get("minPartitions", 1),
        max_offsets_per_trigger=found.get("maxOffsetsPerTrigger"),
        fail_on_data_loss=found.get("failOnDataLoss", True),
        pushdown=found.get("pushdown", False),
        summary=summary,
        columns_given="columns" in found,
        scan=_scan(found),
    )


def _option(name: str, kind: str) -> Option:
    option = find(name, OPTIONS)
    if kind and option.only not in ("", kind):
        raise ConfigError(f"option {option.name} is for {option.only} reads only; leave it out")
    return option


def _check_together(found: Mapping[str, Any], *, summary: bool) -> None:
    columns = [name for name in ("columns", "includeProperties", "pushdown") if found.get(name)]
    if summary and columns:
        raise ConfigError(f"emit=summary has columns of its own; leave {', '.join(columns)} out")
    if found.get("includeProperties") and "properties" not in found.get("columns", ["properties"]):
        raise ConfigError("columns are given without properties; drop includeProperties or add it")
    start, end = found.get("startingTimestamp"), found.get("endingTimestamp")
    if start and end and start.millis > end.millis:
        raise ConfigError("endingTimestamp is before startingTimestamp; exchange them")


def _selection(found: Mapping[str, Any]) -> Selection:
    chosen = [name for name in _SELECTING if name in found]
    if len(chosen) != 1:
        raise ConfigError(
            f"give one of the options {', '.join(_SELECTING)}, not"
            f" {' and '.join(chosen) or 'none of them'}"
        )
    if chosen == ["assign"]:
        queues = found["assign"]
        return Selection(tuple(sorted({queue.topic for queue in queues})), queues=queues)
    if chosen == ["topicPattern"]:
        return Selection(pattern=found["topicPattern"])
    return Selection(found[chosen[0]])


def _position(found: Mapping[str, Any], which: str, default: Edge) -> Position:
    offsets: Position | None = found.get(f"{which}Offsets")
    moment: Moment | None = found.get(f"{which}Timestamp")
    if offsets is not None and moment is not None:
        raise ConfigError(f"give {which}Offsets or {which}Timestamp, not both")
    return moment or offsets or default


def _scan(found: Mapping[str, Any]) -> Scan:
    columns = DEFAULT_COLUMNS + (("properties",) if found.get("includeProperties") else ())
    fields = {field: found[name] for name, field in _SCAN_FIELDS.items() if name in found}
    return Scan(**({"columns": columns} | fields))


_SCAN_FIELDS = {
    "columns": "columns",
    "seqProperty": "seq_property",
    "tags": "tags",
    "pullBatchSize": "pull_batch",
    "pullDepth": "pull_depth",
    "batchBytes": "batch_bytes",
    "failOnDataLoss": "fail_on_data_loss",
    "groupIdPrefix": "group_prefix",
}
