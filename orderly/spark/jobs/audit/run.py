"""The audit of a topic: pin, read summaries, judge, read the suspects again, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.data_source import read, spread
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.figures import AuditFigures, headline
from orderly.spark.jobs.audit.judging import (
    AuditJudgement,
    AuditTables,
    Messages,
    judge,
    merged,
    message_columns,
)
from orderly.spark.jobs.audit.report import KeyPicture, ShownMessage, ShownRows, report
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.origin import Origin, origin
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.offsets import QueueRange

__all__ = ["AuditResult", "AuditSettings", "run"]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit found.

    Attributes:
        figures: counted; `figures.verdict` is the verdict.
        headline: the whole in a sentence or two.
        tables: keys, evidence, queues, losses as DataFrames, kept by Spark until the session ends.
        origin: what was read, and with what; the same offsets can be audited again.
        document: what `result.json` holds.
    """

    figures: AuditFigures
    headline: str
    tables: AuditTables
    origin: Origin
    document: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        """OK: in order; WARNING: only repeats; CRITICAL: order broken; UNKNOWN: not judged."""
        return self.figures.verdict

    def worst(self, most: int) -> tuple[dict[str, Any], ...]:
        """Rows of the table of keys with something wrong, those with the most first."""
        return worst_keys(self.tables.keys, most)


def run(
    spark: SparkSession,
    settings: AuditSettings,
    output: Output | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Judge the order of every key of a topic.

    Args:
        spark: the session.
        settings: what to judge, and how.
        output: where tables, report.html and result.json go; None: nowhere.
        progress: shows the steps.

    Raises:
        OrderlyError: a bad option, no such topic, no broker.
        pyspark.errors.PySparkException: a task failed; our error's line is in its text.
    """
    with progress("pinning offsets"):
        pinned = pin(settings.source)
    parts = merged(summaries(spark, pinned, settings), by_seq=settings.by_seq)
    found = judge(parts, suspects_reader(spark, settings), settings, progress)
    made_from = origin("audit", pinned, settings.document())
    document = made_from.document(found.figures.verdict, asdict(found.figures))
    said = headline(found.figures, settings.seq_property)
    document["headline"] = said
    if output is not None:
        with progress("writing tables"):
            for name in ("keys", "evidence", "queues", "losses"):
                output.table(name, getattr(found.tables, name))
        with progress("drawing"):
            page = report(found.figures, rows_to_show(found), settings, made_from)
        output.finish(document, page)
    return AuditResult(found.figures, said, found.tables, made_from, document)


# --- what the audit reads of a topic: summaries of all messages, then messages of suspects --------


_FEW = 1_000  # suspects that are named to the source


def summaries(
    spark: SparkSession, pinned: Sequence[QueueRange], settings: AuditSettings
) -> DataFrame:
    """Summaries of these ranges."""
    rows = read(spark, pinned, emit="summary", **source_options(spark, settings))
    return redacted_rows(rows, "key", settings)


def suspects_reader(spark: SparkSession, settings: AuditSettings) -> Messages:
    """How to read suspects' messages from the topic."""

    def messages(suspects: DataFrame, ranges: Sequence[QueueRange]) -> DataFrame:
        given = {
            name: text
            for name, text in source_options(spark, settings).items()
            if name.lower() != "failondataloss"
        }
        # A suspect of which messages have expired since is judged by its summaries.
        given |= {"pushdown": "true", "failOnDataLoss": "false"}
        rows = read(spark, ranges, columns=message_columns(by_seq=settings.by_seq), **given)
        few = [] if settings.redact_keys else suspects.select("key").limit(_FEW + 1).collect()
        if 0 < len(few) <= _FEW:  # then other messages need not leave the Python worker
            rows = rows.where(F.col("sharding_key").isin([row.key for row in few]))
        return redacted_rows(rows, "sharding_key", settings)

    return messages


def redacted_rows(rows: DataFrame, key: str, settings: AuditSettings) -> DataFrame:
    """Rows with hashes instead of keys, if that is wanted: as the command line shows them."""
    return rows.withColumn(key, _hidden(F.col(key))) if settings.redact_keys else rows


def _hidden(key: Column) -> Column:
    """`foreign_text.hidden` of a text, as a column; null stays null."""
    digest = F.sha2(F.concat(F.lit("s"), key).cast("binary"), 256)
    return F.concat(F.lit("#"), F.substring(digest, 1, 16))


def source_options(spark: SparkSession, settings: AuditSettings) -> dict[str, str]:
    """Options of the source; a queue with half of all messages is read by several tasks."""
    given = spread(spark, settings.source)
    return given | ({"seqProperty": settings.seq_property} if settings.by_seq else {})


# --- the few rows of an audit's tables that its report shows, collected ---------------------------


KEYS, EVIDENCE = 20, 40  # rows of the tables; queues are few, and all are collected
PICTURES, DOTS = 4, 60
SPANS = 40  # of the time that has evidence
_WRONG = "inversions + across + repeats + gaps"


def worst_keys(keys: DataFrame, most: int) -> tuple[dict[str, Any], ...]:
    """Rows of keys with something wrong, those with the most first."""
    order = (F.expr(_WRONG).desc(), F.col("mixed").desc(), F.col("messages").desc(), "key")
    return _dicts(keys.where("wrong").orderBy(*order).limit(most))


def rows_to_show(found: AuditJudgement) -> ShownRows:
    """Collect what is shown."""
    tables = found.tables
    places = ("topic", "broker", "queue_id")
    worst = worst_keys(tables.keys, KEYS)
    span, times = _spans_of_time(tables.evidence)
    by_kind = ("kind", "topic", "key", "message.store_ts", "message.queue_offset")
    return ShownRows(
        keys=worst,
        evidence=_dicts(tables.evidence.orderBy(*by_kind).limit(EVIDENCE)),
        queues=_dicts(tables.queues.orderBy(*places)),
        losses=_dicts(tables.losses.orderBy(*places)),
        times=times,
        span=span,
        pictures=_pictures(found, worst),
    )


def _dicts(rows: DataFrame) -> tuple[dict[str, Any], ...]:
    return tuple(row.asDict(recursive=True) for row in rows.collect())


def _spans_of_time(evidence: DataFrame) -> tuple[float, tuple[tuple[float, str, int], ...]]:
    """How much evidence there is in each span of time; the spans begin with the first of it."""
    at = F.unix_millis("message.store_ts")
    (ends,) = evidence.select(F.min(at).alias("low"), F.max(at).alias("high")).collect()
    if ends.low is None:
        return 1.0, ()
    span = max((ends.high - ends.low) // SPANS + 1, 1)
    start = F.floor((at - ends.low) / span) * span + ends.low
    rows = evidence.groupBy(start.alias("start"), "kind").count().orderBy("start", "kind").collect()
    return span / 1000, tuple((row["start"] / 1000, row["kind"], row["count"]) for row in rows)


def _pictures(found: AuditJudgement, worst: tuple[dict[str, Any], ...]) -> tuple[KeyPicture, ...]:
    chosen = [row for row in worst if row["exact"]][:PICTURES]
    if found.sequence is None or not chosen:
        return ()
    rows = reduce(DataFrame.unionByName, (_around(found, it["topic"], it["key"]) for it in chosen))
    by_key: dict[tuple[str, str], list[Row]] = {(it["topic"], it["key"]): [] for it in chosen}
    for row in rows.collect():
        by_key[row.topic, row.key].append(row)
    return tuple(KeyPicture(key, _places(mine)) for (_, key), mine in by_key.items() if mine)


def _around(found: AuditJudgement, topic: str, key: str) -> DataFrame:
    """The key's messages stored nearest to the first thing that is wrong."""
    assert found.sequence is not None
    this = (F.col("topic") == topic) & (F.col("key") == key)
    evidence = found.tables.evidence.where(this)
    first = evidence.agg(F.min("message.store_ts").alias("first"))
    marks = evidence.select(
        *(F.col(f"message.{name}").alias(name) for name in ("broker", "queue_id", "queue_offset")),
        F.lit(True).alias("wrong"),
    ).distinct()
    columns = ("topic", "key", "broker", "queue_id", "queue_offset", "seq", "store_ts")
    near = found.sequence.where(this).select(*columns).crossJoin(F.broadcast(first))
    away = F.coalesce(F.abs(F.unix_micros("store_ts") - F.unix_micros("first")), F.lit(0))
    near = near.orderBy(away, "queue_offset").limit(DOTS).drop("first")
    return near.join(F.broadcast(marks), ["broker", "queue_id", "queue_offset"], "left")


def _places(rows: list[Row]) -> tuple[ShownMessage, ...]:
    ordered = sorted(rows, key=lambda row: (row.store_ts, row.broker, row.queue_id,
                                            row.queue_offset))  # fmt: skip
    brokers = {row.broker for row in rows}
    return tuple(
        ShownMessage(
            queue=f"{row.broker} {row.queue_id}" if len(brokers) > 1 else f"queue {row.queue_id}",
            offset=row.queue_offset,
            seq=row.seq,
            at=row.store_ts.timestamp(),
            wrong=bool(row.wrong),
        )
        for row in ordered
    )
