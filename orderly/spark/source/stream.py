"""The reader of a stream: from one batch's offsets to the next one's.

Spark's engine keeps the offsets; here is no state that a restart would miss. Spark may end the
process without a word: nothing relies on `commit` or `stop`.
"""

# ruff: noqa: N802  Spark's names for its methods
from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from orderly.spark.connecting import kept_client
from orderly.spark.offsets.advancing import (
    advanced,
    beginning,
    between,
    first_checkpoint,
    next_checkpoint,
    offsets_in,
)
from orderly.spark.offsets.ranges import split
from orderly.spark.offsets.text import to_object
from orderly.spark.options.parsing import ReadOptions
from orderly.spark.source.parts import Part, Reading
from orderly.spark.told import told
from orderly.spark.watching import Watch


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is stored, batch by batch. Spark calls it from one thread of one process.

    Args:
        options: of the read.
        reading: what each task does.
    """

    def __init__(self, options: ReadOptions, reading: Reading) -> None:
        self._options = options
        self._reading = reading
        self._initial: dict[str, Any] | None = None

    @cached_property
    def _watch(self) -> Watch:
        return Watch(kept_client(self._reading.access), self._options)

    @told
    def initialOffset(self) -> dict[str, Any]:
        """Where the stream begins if it has no checkpoint; the same each time Spark asks."""
        if self._initial is None:
            self._initial = first_checkpoint(self._watch.beginning())
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        """What option maxOffsetsPerTrigger says."""
        limit = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(max_rows=limit)

    @told
    def prepareForTriggerAvailableNow(self) -> None:
        """Freeze the ends: what comes later is for another run."""
        self._watch.freeze()

    @told
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; never before `start`."""
        at = offsets_in(start)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return next_checkpoint(start, advanced(at, self._watch.look(at).spans, most))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The ends of the queues as they were seen last, for the query's progress."""
        ends = self._watch.ends()
        return to_object(ends) if ends else None

    @told
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The parts of a batch: the same offsets whenever it is run."""
        ranges = between(beginning(start, end), offsets_in(end))
        kept = self._watch.still_there(ranges)
        return [Part(each) for each in split(kept, self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, in a worker."""
        return self._reading.read(partition)
