"""The reader of a batch: ranges worked out once, when the scan is planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from orderly.spark.discovering import pinned
from orderly.spark.offsets.ranges import QueueRange, split
from orderly.spark.options.parsing import ReadOptions
from orderly.spark.source.parts import Part, Reading
from orderly.spark.told import told


class BatchReader(DataSourceReader):
    """Reads what the options say was there when the scan was planned.

    Args:
        options: of the read.
        reading: what each task does.
    """

    def __init__(self, options: ReadOptions, reading: Reading) -> None:
        self._options = options
        self._reading = reading

    @told
    def partitions(self) -> list[InputPartition]:
        """A part for each queue, or more if the user wants more; empty queues have none."""
        return [Part(each) for each in split(self._ranges(), self._options.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, in a worker."""
        return self._reading.read(partition)

    def _ranges(self) -> Sequence[QueueRange]:
        with closing(self._reading.access.client()) as client:
            return pinned(client, self._options)
