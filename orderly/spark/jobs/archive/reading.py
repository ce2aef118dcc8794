"""The messages of an archive as a DataFrame: those of finished runs, and no others."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from orderly.errors import ConfigError
from orderly.spark.jobs.archive.book import MESSAGES, ROWS, Book
from orderly.spark.jobs.archive.ledger import Run, reached
from orderly.spark.jobs.files import files_at

DAY = "dt"


def read(spark: SparkSession, directory: str, runs: Sequence[Run] | None = None) -> DataFrame:
    """The archived messages, with all columns of the source, and `dt`, the day of storing in UTC.

    Filters on dt, broker and queue_id leave whole folders out.

    Args:
        spark: the session.
        directory: of the archive.
        runs: of it; None: all that are finished now.

    Raises:
        ConfigError: there is no archive.
        OrderlyError: its book is damaged.
    """
    book = Book(spark, files_at(spark, directory))
    identity = book.identity()
    if identity is None:
        raise ConfigError(f"{directory} is no archive: it has no archive.json")
    chosen = book.runs() if runs is None else runs
    root = f"{book.files.root}/{MESSAGES}"
    files = [f"{root}/{name}" for run in chosen for name in run.files]
    if not files:
        return spark.createDataFrame([], ROWS)
    if identity.table_format == "delta":
        return spark.read.format("delta").load(root).where(_covered(chosen))
    return spark.read.schema(ROWS).option("basePath", root).parquet(*files)


def _covered(runs: Sequence[Run]) -> Column:
    """What the runs cover: the table may hold a run that is not finished yet."""
    covered = sf.lit(False)
    for queue, end in reached(runs).items():
        covered |= (
            (sf.col("broker") == queue.broker_name)
            & (sf.col("queue_id") == queue.queue_id)
            & (sf.col("queue_offset") < end)
        )
    return covered


def with_day(messages: DataFrame) -> DataFrame:
    """Add `dt`: by UTC, whatever the session's time zone is."""
    days = sf.expr("date_add(date'1970-01-01', CAST(floor(unix_seconds(store_ts) / 86400) AS INT))")
    return messages.withColumn(DAY, days)
