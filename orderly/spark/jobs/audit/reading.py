"""What the audit reads of a topic: summaries of all messages, then messages of suspects."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.spark import source
from orderly.spark.jobs.audit.evidence import columns
from orderly.spark.jobs.audit.judging import Messages
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.offsets.ranges import QueueRange

_FEW = 1_000  # suspects that are named to the source


def summaries(
    spark: SparkSession, read: Sequence[QueueRange], settings: AuditSettings
) -> DataFrame:
    """Summaries of these ranges."""
    rows = source.read(spark, read, emit="summary", **options(spark, settings))
    return shown(rows, "key", settings)


def again(spark: SparkSession, settings: AuditSettings) -> Messages:
    """How to read suspects' messages from the topic."""

    def messages(suspects: DataFrame, ranges: Sequence[QueueRange]) -> DataFrame:
        given = {
            name: text
            for name, text in options(spark, settings).items()
            if name.lower() != "failondataloss"
        }
        # A suspect of which messages have expired since is told by its summaries.
        given |= {"pushdown": "true", "failOnDataLoss": "false"}
        rows = source.read(spark, ranges, columns=columns(by_seq=settings.by_seq), **given)
        few = [] if settings.redact_keys else suspects.select("key").limit(_FEW + 1).collect()
        if 0 < len(few) <= _FEW:  # then other messages need not leave the Python worker
            rows = rows.where(F.col("sharding_key").isin([row.key for row in few]))
        return shown(rows, "sharding_key", settings)

    return messages


def shown(rows: DataFrame, key: str, settings: AuditSettings) -> DataFrame:
    """Rows with hashes instead of keys, if that is wanted: as the command line shows them."""
    return rows.withColumn(key, _hidden(F.col(key))) if settings.redact_keys else rows


def _hidden(key: Column) -> Column:
    """`foreign_text.hidden` of a text, as a column; null stays null."""
    digest = F.sha2(F.concat(F.lit("s"), key).cast("binary"), 256)
    return F.concat(F.lit("#"), F.substring(digest, 1, 16))


def options(spark: SparkSession, settings: AuditSettings) -> dict[str, str]:
    """Options of the source; a queue with half of all messages is read by several tasks."""
    given = source.spread(spark, settings.source)
    return given | ({"seqProperty": settings.seq_property} if settings.by_seq else {})
