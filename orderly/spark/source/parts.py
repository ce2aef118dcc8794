"""What a task reads, and how: the same for batches and streams.

Nothing here joins a group, commits, or needs to be told that it is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from orderly.errors import OrderlyError
from orderly.spark.connecting import Access, kept_client
from orderly.spark.offsets.losses import Loss
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reading import Scan, read_range
from orderly.spark.source.schema import fitted
from orderly.spark.summary import summarize
from orderly.spark.telling import tell
from orderly.spark.told import shortened


class Part(InputPartition):
    """A task's range."""

    def __init__(self, wanted: QueueRange) -> None:
        super().__init__(wanted)


@dataclass(frozen=True, slots=True)
class Reading:
    """How parts are read. Picklable; holds no secrets.

    Attributes:
        access: how to reach the cluster.
        scan: what of each message.
        schema: what Spark expects.
        summary: whether summaries are read, not messages.
        only: by column, the texts that rows may have; those of other rows are left out.
    """

    access: Access
    scan: Scan
    schema: pa.Schema
    summary: bool = False
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def read(self, part: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part; Spark makes one up, without a range, where there are none."""
        if not isinstance(part, Part):
            return
        try:
            for batch in self._batches(part.value):
                kept = self._fitting(batch)
                if kept.num_rows:
                    yield fitted(kept, self.schema)
        except OrderlyError as error:
            raise shortened(error) from None

    def _fitting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that a query's conditions on texts let through."""
        for column, texts in self.only.items():
            allowed = pa.array(sorted(texts), pa.string())
            batch = batch.filter(pc.is_in(batch.column(column), allowed))
        return batch

    def _batches(self, wanted: QueueRange) -> Iterator[pa.RecordBatch]:
        losses: list[Loss] = []

        def lose(loss: Loss) -> None:
            losses.append(loss)
            tell(loss)

        batches = read_range(kept_client(self.access), self.scan, wanted, lose)
        if not self.summary:
            return batches
        return summarize(wanted.queue, batches, seq_property=self.scan.seq_property, losses=losses)
