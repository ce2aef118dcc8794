"""The table that a replay reads: messages by topic, broker, queue_id and queue_offset.

A stream may go on adding to it. What a replay sends ends where each queue ended when it began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.output import require_format
from orderly.spark.jobs.replay.selection import KEY, OFFSET, QUEUE, is_of
from orderly.spark.offsets.ranges import QueueRange

NEEDED = (*QUEUE, OFFSET, KEY, "store_ts", "body")
_MAY_LACK = {"tag": "string", "keys": "string", "properties": "map<string,string>"}


def load(spark: SparkSession, path: str, table_format: str = "parquet") -> DataFrame:
    """The messages of a table; columns that it need not have are null.

    Args:
        spark: the session.
        path: of the table, also one that a stream writes.
        table_format: parquet or delta.

    Raises:
        ConfigError: it cannot be read, or lacks a column.
    """
    require_format(spark, table_format)
    try:
        found = spark.read.format(table_format).load(path)
    except AnalysisException as error:
        first = str(error).strip().partition("\n")[0]
        raise ConfigError(f"{path} cannot be read as {table_format}: {first}") from error
    if lacking := [name for name in NEEDED if name not in found.columns]:
        raise ConfigError(
            f"{path} has no column {', '.join(lacking)}: a replay needs {', '.join(NEEDED)}, as the"
            " source names them"
        )
    for name, kind in _MAY_LACK.items():
        if name not in found.columns:
            found = found.withColumn(name, sf.lit(None).cast(kind))
    return found.select(*NEEDED, *_MAY_LACK)


def up_to(table: DataFrame, ends: Mapping[MessageQueue, int]) -> DataFrame:
    """What is below these ends; of queues that are not named nothing."""
    parts = (is_of(queue) & (sf.col(OFFSET) < end) for queue, end in ends.items())
    return table.where(reduce(or_, parts, sf.lit(False)))


def spans(table: DataFrame) -> tuple[QueueRange, ...]:
    """From where to where each queue goes.

    Raises:
        ConfigError: messages of several topics, rows without a place, or several with the same.
    """
    rows = (
        table.groupBy(*QUEUE)
        .agg(
            sf.min(OFFSET).alias("first"),
            sf.max(OFFSET).alias("last"),
            sf.count("*").alias("rows"),
            sf.count_distinct(OFFSET).alias("places"),
        )
        .collect()
    )
    if any(None in (row.topic, row.broker, row.queue_id) or row.rows != row.places for row in rows):
        raise ConfigError(
            "rows of the table have no place, or the same one: each topic, broker, queue_id and"
            " queue_offset must be there once, or nobody knows what to send; drop the others"
        )
    topics = sorted({row.topic for row in rows})
    if len(topics) > 1:
        raise ConfigError(
            f"the table has messages of several topics ({', '.join(topics)}), and between topics a"
            " key has no order: give a table of each"
        )
    queues = [MessageQueue(row.topic, row.broker, row.queue_id) for row in rows]
    found = zip(queues, rows, strict=True)
    return tuple(sorted(QueueRange(queue, row.first, row.last + 1) for queue, row in found))


def without_holes(table: DataFrame, covered: Sequence[QueueRange]) -> tuple[QueueRange, ...]:
    """Each queue up to the first offset that the table leaves out: what was there it can't tell."""
    here = Window.partitionBy("broker", "queue_id").orderBy(OFFSET)
    following = table.select("broker", "queue_id", OFFSET, sf.lead(OFFSET).over(here).alias("next"))
    ends = following.where("next IS NULL OR next > queue_offset + 1")
    rows = ends.groupBy("broker", "queue_id").agg(sf.min(OFFSET).alias("last")).collect()
    lasts = {(row.broker, row.queue_id): row.last for row in rows}
    return tuple(
        QueueRange(it.queue, it.start, lasts[it.queue.broker_name, it.queue.queue_id] + 1)
        for it in covered
    )
