"""An archive counted anew against its book: each offset has one row, is told as lost, or is absent.

Rows are counted and gaps found by one pass over the offsets of each queue, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from orderly.model import MessageQueue
from orderly.spark.jobs.archive.ledger import Run
from orderly.spark.jobs.archive.reading import read
from orderly.spark.offsets.ranges import QueueRange

_QUEUE = ("topic", "broker", "queue_id")
MOST_GAPS = 1000  # told one by one


@dataclass(frozen=True, slots=True)
class Counted:
    """One queue of an archive, as its book says and as it was counted.

    Attributes:
        covered: by the runs.
        recorded: rows that the book tells of.
        lost: offsets that the book tells as expired before they were archived.
        rows: that are there; `repeated` of them share their offset with another one.
        outside: rows with an offset that no run covers.
    """

    covered: QueueRange
    recorded: int
    lost: int
    rows: int = 0
    repeated: int = 0
    outside: int = 0

    @property
    def absent(self) -> int:
        """Offsets without a row that are not told as lost."""
        return self.covered.messages - self.lost - (self.rows - self.repeated - self.outside)

    @property
    def is_sound(self) -> bool:
        """Whether what is there is what the book says, each message once."""
        return self.rows == self.recorded and self.repeated == self.outside == 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a row, and why."""

    missing: QueueRange
    why: str


EXPIRED = "expired at the broker before they were archived"
FILTERED = "filtered by tag"
UNEXPLAINED = "the broker gave no message for them"


def verify(spark: SparkSession, directory: str, runs: Sequence[Run]) -> list[Counted]:
    """Count an archive.

    Args:
        spark: the session.
        directory: of the archive.
        runs: its finished runs.

    Returns:
        Its queues, sorted.
    """
    book = _by_book(runs)
    counts = _counts(read(spark, directory, runs), {queue: book[queue].covered for queue in book})
    return [_counted(book[queue], counts.get(queue, {})) for queue in sorted(book)]


def _by_book(runs: Sequence[Run]) -> dict[MessageQueue, Counted]:
    book: dict[MessageQueue, Counted] = {}
    for run in runs:
        for part in run.stretches:
            queue, end = part.covered.queue, part.covered.end
            old = book.get(queue, Counted(QueueRange(queue, part.covered.start, end), 0, 0))
            span = QueueRange(queue, old.covered.start, end)
            book[queue] = Counted(span, old.recorded + part.rows, old.lost + part.lost)
    return book


def _counts(
    messages: DataFrame, covered: Mapping[MessageQueue, QueueRange]
) -> dict[MessageQueue, dict[str, Any]]:
    spark = messages.sparkSession
    spans = [(*_of(queue), it.start, it.end) for queue, it in covered.items()]
    schema = "topic string, broker string, queue_id int, start bigint, end bigint"
    known = sf.broadcast(spark.createDataFrame(spans, schema))
    joined = messages.select(*_QUEUE, "queue_offset").join(known, [*_QUEUE], "left")
    offset = sf.col("queue_offset")
    inside = sf.coalesce(offset.between(sf.col("start"), sf.col("end") - 1), sf.lit(False))
    per_offset = joined.groupBy(*_QUEUE, "queue_offset").agg(
        sf.count("*").alias("copies"), sf.bool_or(inside).alias("inside")
    )
    rows = per_offset.groupBy(*_QUEUE).agg(
        sf.sum("copies").alias("rows"),
        sf.sum(sf.col("copies") - 1).alias("repeated"),
        sf.count_if(~sf.col("inside")).alias("outside"),
    )
    return {_queue(row): row.asDict() for row in rows.collect()}


def _counted(book: Counted, counts: Mapping[str, Any]) -> Counted:
    numbers = (counts.get(name, 0) for name in ("rows", "repeated", "outside"))
    return Counted(book.covered, book.recorded, book.lost, *numbers)


def gaps(spark: SparkSession, directory: str, runs: Sequence[Run], *, tags: str) -> list[Gap]:
    """The stretches without a row, MOST_GAPS of them at most, by queue and offset.

    Args:
        spark: the session.
        directory: of the archive.
        runs: its finished runs.
        tags: by which it filters.
    """
    why = UNEXPLAINED if tags == "*" else FILTERED
    lost = list(_lost(runs))
    edges = [edge for gap in lost for edge in _edges(gap.missing)]
    edges += [edge for it in _by_book(runs).values() for edge in _edges(it.covered, outer=True)]
    schema = "topic string, broker string, queue_id int, queue_offset bigint, until bigint"
    marks = spark.createDataFrame(edges, schema)
    places = read(spark, directory, runs).select(*_QUEUE, "queue_offset")
    ends = places.withColumn("until", sf.col("queue_offset") + 1).unionByName(marks)
    order = Window.partitionBy(*_QUEUE).orderBy("queue_offset", "until")
    before = sf.max("until").over(order.rowsBetween(Window.unboundedPreceding, -1))
    found = ends.withColumn("since", before).where(sf.col("queue_offset") > sf.col("since"))
    rows = found.orderBy(*_QUEUE, "since").limit(MOST_GAPS).collect()
    told = [Gap(QueueRange(_queue(row), row.since, row.queue_offset), why) for row in rows]
    return sorted([*lost, *told], key=lambda gap: gap.missing)[:MOST_GAPS]


def _lost(runs: Sequence[Run]) -> Iterator[Gap]:
    for run in runs:
        for part in run.stretches:
            if part.lost:
                start = part.covered.start
                span = QueueRange(part.covered.queue, start, start + part.lost)
                yield Gap(span, EXPIRED)


def _edges(span: QueueRange, *, outer: bool = False) -> list[tuple[str, str, int, int, int]]:
    """What stands for offsets in the search: what is lost, or the two ends of what is covered."""
    queue = _of(span.queue)
    if outer:
        return [(*queue, span.start, span.start), (*queue, span.end, span.end)]
    return [(*queue, span.start, span.end)]


def _of(queue: MessageQueue) -> tuple[str, str, int]:
    return queue.topic, queue.broker_name, queue.queue_id


def _queue(row: Any) -> MessageQueue:
    return MessageQueue(row["topic"], row["broker"], row["queue_id"])
