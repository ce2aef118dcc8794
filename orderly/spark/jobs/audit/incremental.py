"""The audit that goes on: each run reads only what is new, and judges all of it.

A stream of summaries, folded batch by batch into rows on disk (`state`). For a timetable (cron):
read what there is, and end. Or stay, and look each few seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does
from pyspark.sql.streaming.query import StreamingQuery

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.spark.jobs.audit.folding import Batch, Folding, known, rows_of
from orderly.spark.jobs.audit.judging import judge
from orderly.spark.jobs.audit.reading import again, options
from orderly.spark.jobs.audit.run import AuditResult, told
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.audit.state import CHECKPOINT
from orderly.spark.jobs.files import files_at
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.source import register

_PLACE = ("topic", "broker", "queue_id")


def follow(
    spark: SparkSession,
    settings: AuditSettings,
    directory: str,
    *,
    every: float | None = None,
    watch: Callable[[Batch], None] | None = None,
) -> StreamingQuery:
    """Start to read what is new into the state in a directory; the first time, all there is.

    Args:
        spark: the session.
        settings: as in the runs before, if there were any.
        directory: of this audit alone; on a cluster one that executors reach.
        every: None: read what there is and end; else look again after so many seconds.
        watch: called after each batch, on a thread of Spark's; None: nobody is.

    Returns:
        Spark's query; `awaitTermination()` waits for its end and raises its error.

    Raises:
        ConfigError: the directory holds the state of something else.
    """
    files = files_at(spark, directory)
    known(files, settings)
    register(spark)
    given = options(spark, settings) | {"emit": "summary"}
    if not any(name.lower().startswith("starting") for name in given):
        given["startingOffsets"] = "earliest"
    stream = spark.readStream.format("rocketmq").options(**given).load()

    folding = Folding(files, settings, watch)
    writer = stream.writeStream.foreachBatch(folding.take)
    writer = writer.option("checkpointLocation", f"{files.root}/{CHECKPOINT}")
    if every is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{every * 1000:.0f} milliseconds").start()


def result(
    spark: SparkSession,
    settings: AuditSettings,
    directory: str,
    output: Output | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Judge all that the state in a directory has seen, as `run` would in one go.

    Args:
        spark: the session.
        settings: of the runs that made the state.
        directory: as given to `follow`.
        output: where tables, report.html and result.json go; None: nowhere.
        progress: told of the steps.

    Raises:
        OrderlyError: there is no state yet.
    """
    files = files_at(spark, directory)
    state = known(files, settings)
    if state is None or not state.buckets:
        raise OrderlyError(f"there is nothing in {files.root} yet: no batch had a message")
    parts = rows_of(spark, files, state, list(state.buckets))
    found = judge(parts, again(spark, settings), settings, progress)
    return told(found, _read(parts), settings, output, progress)


def _read(parts: DataFrame) -> list[QueueRange]:
    """What the state has seen of each queue."""
    ends = parts.groupBy(*_PLACE).agg(
        F.min("first_offset").alias("start"), (F.max("last_offset") + 1).alias("end")
    )
    return sorted(
        QueueRange(MessageQueue(*(row[name] for name in _PLACE)), row.start, row.end)
        for row in ends.collect()
    )
