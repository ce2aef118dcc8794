"""What Spark asks of a reader: a schema, the parts of a batch or of a stream, each part's messages.

Nothing here joins a group, commits, or needs to hear that a query is over.
"""

# ruff: noqa: N802  Spark's names for its methods
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from orderly.client import Client
from orderly.errors import ConfigError, OrderlyError
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import ALL_TAGS
from orderly.spark.access import Access, kept_client
from orderly.spark.columns import COLUMNS, arrow_schema
from orderly.spark.discovering import offsets_since, pinned
from orderly.spark.offsets import Loss, QueueRange, millis_of, split, to_object, warn_of
from orderly.spark.options import ReadOptions, ScanOptions
from orderly.spark.reading import read_range
from orderly.spark.summary import SCHEMA, summarize
from orderly.spark.tracebacks import short_traceback, shortened
from orderly.spark.watching import (
    StreamWatch,
    advanced,
    beginning,
    between,
    first_checkpoint,
    next_checkpoint,
    offsets_in,
)

# --- Spark's schemas and the columns read ---------------------------------------------------------
# Spark takes a record batch only if its schema equals the declared one in every name, type and
# nullability.


def schema_of(options: ReadOptions) -> StructType:
    """What is read if the user gives no schema."""
    return from_arrow_schema(SCHEMA if options.summary else arrow_schema(options.columns))


def columns_of(schema: StructType, options: ReadOptions) -> tuple[str, ...]:
    """The columns of messages that a read with this schema needs, in its order.

    Raises:
        ConfigError: a column that there is not, or of another type.
    """
    declared = {name: column.spark for name, column in COLUMNS.items()}
    if options.summary:
        declared = {field.name: field.dataType.simpleString() for field in schema_of(options)}
    for column in schema:
        wanted = declared.get(column.name)
        if wanted is None:
            raise ConfigError(
                f"the schema has a column {column.name}, but a topic has none; the columns are"
                f" {', '.join(declared)}"
            )
        if column.dataType.simpleString() != wanted:
            raise ConfigError(
                f"column {column.name} is {wanted}, not {column.dataType.simpleString()}; declare"
                f" it as {wanted}, and cast it afterwards"
            )
    names = tuple(schema.names)
    if options.columns_given and names != options.columns:
        raise ConfigError(
            "give a schema or the option columns, not both: they name different columns"
        )
    return names


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch under the schema that Spark expects; nothing is copied."""
    if batch.schema.equals(schema):
        return batch
    return batch.select(schema.names).cast(schema)


def expected(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of a reader."""
    return to_arrow_schema(schema, timezone="UTC")


# --- what a task reads, and how: the same for batches and streams ---------------------------------


class RangePartition(InputPartition):
    """A task's range."""

    def __init__(self, wanted: QueueRange) -> None:
        super().__init__(wanted)


@dataclass(frozen=True, slots=True)
class RangeReader:
    """How parts are read. Picklable; holds no secrets.

    Attributes:
        access: how to reach the cluster.
        scan: what of each message.
        schema: what Spark expects.
        summary: whether summaries are read, not messages.
    """

    access: Access
    scan: ScanOptions
    schema: pa.Schema
    summary: bool = False

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part; Spark makes one up, without a range, where there are none."""
        if not isinstance(part, RangePartition):
            return
        try:
            for batch in self._batches(part.value):
                yield fitted(batch, self.schema)
        except OrderlyError as error:
            raise shortened(error) from None

    def _batches(self, wanted: QueueRange) -> Iterator[pa.RecordBatch]:
        losses: list[Loss] = []

        def lose(loss: Loss) -> None:
            losses.append(loss)
            warn_of(loss)

        batches = read_range(kept_client(self.access), self.scan, wanted, lose)
        if not self.summary:
            return batches
        return summarize(wanted.queue, batches, seq_property=self.scan.seq_property, losses=losses)


# --- filter pushdown: queues, offsets and times that need not be read -----------------------------
# Pure. Conditions are joined by AND. One is honoured if no row that fails it is ever handed on;
# Spark checks the others again, row by row.


_TEXT_COLUMNS = frozenset({"msg_id", "uniq_key", "tag", "keys", "sharding_key"})
_PLAIN_TAG = re.compile(r"[^\s|*]+")
_LAST_OFFSET = 2**63 - 1


class Comparison(StrEnum):
    """How a column's value is compared."""

    IN = "in"
    BELOW = "<"
    UP_TO = "<="
    FROM = ">="
    ABOVE = ">"
    THERE = "is not null"


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared with values: several for IN, none for THERE, else one."""

    column: str
    op: Comparison
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Pushdown:
    """What is left to read.

    Attributes:
        only: by column, the values that rows may have.
        low, high: queue offsets, `high` is not among them.
        since, until: milliseconds since the epoch between which, at least, a row was stored;
            None: no limit.
    """

    only: dict[str, frozenset[Any]] = field(default_factory=dict)
    low: int = 0
    high: int = _LAST_OFFSET
    since: int | None = None
    until: int | None = None

    def takes(self, queue: MessageQueue) -> bool:
        """Whether a queue may have rows."""
        places = {"topic": queue.topic, "broker": queue.broker_name, "queue_id": queue.queue_id}
        return all(
            place in self.only.get(column, frozenset({place})) for column, place in places.items()
        )

    def cut(self, ranges: Iterable[QueueRange]) -> list[QueueRange]:
        """Ranges without what no row needs, by queue and offset."""
        cut = (
            QueueRange(each.queue, max(each.start, self.low), min(each.end, self.high))
            for each in ranges
            if self.takes(each.queue)
        )
        return [each for each in cut if each.messages > 0]

    def tags(self) -> str:
        """The tags that rows may have, for the broker; "*": any."""
        values = self.only.get("tag")
        if not values or not all(_PLAIN_TAG.fullmatch(value) for value in values):
            return ALL_TAGS
        return "||".join(sorted(values))

    def texts(self) -> dict[str, frozenset[str]]:
        """By column, the texts that rows may have; the reader compares them."""
        return {name: values for name, values in self.only.items() if name in _TEXT_COLUMNS}


def narrow(sofar: Pushdown, condition: Condition) -> tuple[Pushdown, bool]:
    """Take a condition into account.

    Returns:
        The narrowing, and whether the condition is honoured and needs no second look.
    """
    column, op = condition.column, condition.op
    if op is Comparison.THERE:
        return sofar, column in sofar.only or not COLUMNS[column].nullable
    if column == "queue_offset" and op is not Comparison.IN:
        return _by_offset(sofar, op, condition.values[0]), True
    if column == "queue_offset":
        return _among_offsets(sofar, condition.values), False
    if column == "store_ts" and op is not Comparison.IN:
        return _by_time(sofar, op, condition.values[0]), False
    if op is Comparison.IN and (
        column in _TEXT_COLUMNS or column in ("topic", "broker", "queue_id")
    ):
        allowed = frozenset(value for value in condition.values if value is not None)
        both = sofar.only.get(column, allowed) & allowed
        return replace(sofar, only=sofar.only | {column: both}), True
    return sofar, False


def _by_offset(sofar: Pushdown, op: Comparison, value: int) -> Pushdown:
    if op in (Comparison.FROM, Comparison.ABOVE):
        return replace(sofar, low=max(sofar.low, value + (op is Comparison.ABOVE)))
    return replace(sofar, high=min(sofar.high, value + (op is Comparison.UP_TO)))


def _among_offsets(sofar: Pushdown, values: tuple[Any, ...]) -> Pushdown:
    known = [value for value in values if value is not None]
    if not known:
        return replace(sofar, high=0)
    return _by_offset(_by_offset(sofar, Comparison.FROM, min(known)), Comparison.UP_TO, max(known))


def _by_time(sofar: Pushdown, op: Comparison, value: datetime) -> Pushdown:
    """A limit that no fitting row lies beyond: a store's clock has milliseconds."""
    millis = millis_of(value)
    if op in (Comparison.FROM, Comparison.ABOVE):
        return replace(sofar, since=max(sofar.since or 0, millis))
    until = millis + 1  # also what was stored in that millisecond; Spark decides
    return replace(sofar, until=until if sofar.until is None else min(sofar.until, until))


# --- a batch: ranges worked out once, when the scan is planned ------------------------------------


class BatchReader(DataSourceReader):
    """Reads what the options say was there when the scan was planned.

    Args:
        options: of the read.
        reading: what each task does.
    """

    def __init__(self, options: ReadOptions, reading: RangeReader) -> None:
        self._options = options
        self._reading = reading

    @short_traceback
    def partitions(self) -> list[InputPartition]:
        """A part for each queue, or more if the user wants more; empty queues have none."""
        return [
            RangePartition(each) for each in split(self._ranges(), self._options.min_partitions)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, in a worker."""
        return self._reading.read(partition)

    def _ranges(self) -> Sequence[QueueRange]:
        with closing(self._reading.access.client()) as client:
            return pinned(client, self._options)


_OPS: dict[type[Filter], Comparison] = {
    EqualTo: Comparison.IN,
    EqualNullSafe: Comparison.IN,
    In: Comparison.IN,
    GreaterThan: Comparison.ABOVE,
    GreaterThanOrEqual: Comparison.FROM,
    LessThan: Comparison.BELOW,
    LessThanOrEqual: Comparison.UP_TO,
    IsNotNull: Comparison.THERE,
}


class FilteringReader(BatchReader):
    """Reads less. Spark asks for the filters first, then for the parts."""

    _narrowing = Pushdown()

    @short_traceback
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take the conditions of the query; those returned are checked by Spark, row by row."""
        left: list[Filter] = []
        for each in sorted(filters, key=lambda each: isinstance(each, IsNotNull)):
            condition = _condition(each)
            honoured = False
            if condition is not None:
                self._narrowing, honoured = narrow(self._narrowing, condition)
            if not honoured:
                left.append(each)
        scan = replace(self._tagged(), only=self._narrowing.texts())
        self._reading = replace(self._reading, scan=scan)
        return left

    def _tagged(self) -> ScanOptions:
        tags = self._narrowing.tags()
        scan = self._reading.scan
        return replace(scan, tags=tags) if scan.tags == ALL_TAGS else scan

    def _ranges(self) -> Sequence[QueueRange]:
        with closing(self._reading.access.client()) as client:
            ranges = self._narrowing.cut(pinned(client, self._options))
            return self._in_time(client, ranges)

    def _in_time(self, client: Client, ranges: list[QueueRange]) -> list[QueueRange]:
        """Ranges without messages that were stored too early or too late."""
        queues = [each.queue for each in ranges]
        since, until = self._narrowing.since, self._narrowing.until
        low = offsets_since(client, queues, since) if since is not None else {}
        high = offsets_since(client, queues, until) if until is not None else {}
        return [
            QueueRange(
                each.queue,
                max(each.start, low.get(each.queue, each.start)),
                min(each.end, high.get(each.queue, each.end)),
            )
            for each in ranges
        ]


def _condition(asked: Any) -> Condition | None:
    op = _OPS.get(type(asked))
    if op is None or len(asked.attribute) != 1:
        return None
    column = asked.attribute[0]
    if op is Comparison.THERE:
        return Condition(column, op)
    values = tuple(asked.value) if isinstance(asked, In) else (asked.value,)
    if None in values and not isinstance(asked, In):
        return None
    return Condition(column, op, values)


# --- a stream: from one batch's offsets to the next one's -----------------------------------------
# Spark's engine keeps the offsets; here is no state that a restart would miss. Spark may end the
# process without a word: nothing relies on `commit` or `stop`.


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is stored, batch by batch. Spark calls it from one thread of one process.

    Args:
        options: of the read.
        reading: what each task does.
    """

    def __init__(self, options: ReadOptions, reading: RangeReader) -> None:
        self._options = options
        self._reading = reading
        self._initial: dict[str, Any] | None = None

    @cached_property
    def _watch(self) -> StreamWatch:
        return StreamWatch(kept_client(self._reading.access), self._options)

    @short_traceback
    def initialOffset(self) -> dict[str, Any]:
        """Where the stream begins if it has no checkpoint; the same each time Spark asks."""
        if self._initial is None:
            self._initial = first_checkpoint(self._watch.beginning())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """What option maxOffsetsPerTrigger says."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(max_rows=limit)

    @short_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the ends: what comes later is for another run."""
        self._watch.freeze()

    @short_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; never before `start`."""
        at = offsets_in(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return next_checkpoint(start, advanced(at, self._watch.look(at).spans, most))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the queues as they were seen last, for the query's progress."""
        ends = self._watch.ends()
        return to_object(ends) if ends else None

    @short_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of a batch: the same offsets whenever it is run."""
        ranges = between(beginning(start, end), offsets_in(end))
        kept = self._watch.still_there(ranges)
        return [RangePartition(each) for each in split(kept, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, in a worker."""
        return self._reading.read(partition)
