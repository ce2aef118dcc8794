"""The audit of a topic: pin, read summaries, judge, read the suspects again, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.data_source import read, spread
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.evidence import message_columns, worst_pictures
from orderly.spark.jobs.audit.figures import AuditFigures, headline
from orderly.spark.jobs.audit.judging import (
    AuditJudgement,
    AuditTables,
    Messages,
    judge,
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
        tables: keys and evidence as DataFrames, kept by Spark until the session ends; queues and
            losses as Arrow tables.
        worst: rows of the table of keys with something wrong, those with the most first, at most
            20.
        origin: what was read, and with what; the same offsets can be audited again.
        document: what `result.json` holds.
    """

    figures: AuditFigures
    headline: str
    tables: AuditTables
    worst: tuple[dict[str, Any], ...]
    origin: Origin
    document: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        """OK: in order; WARNING: only repeats; CRITICAL: order broken; UNKNOWN: not judged."""
        return self.figures.verdict


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
    again = suspects_reader(spark, settings)
    size = sum(each.messages for each in pinned)
    found = judge(summaries(spark, pinned, settings), again, settings, progress, size)
    made_from = origin("audit", pinned, settings.document())
    document = made_from.document(found.figures.verdict, asdict(found.figures))
    said = headline(found.figures, settings.seq_property)
    document["headline"] = said
    with progress("choosing the worst"):
        worst = worst_keys(found)
    if output is not None:
        with progress("writing tables"):
            for name in ("keys", "evidence", "queues", "losses"):
                output.table(name, getattr(found.tables, name))
        with progress("drawing"):
            page = report(found.figures, rows_to_show(found, worst), settings, made_from)
        output.finish(document, page)
    return AuditResult(found.figures, said, found.tables, worst, made_from, document)


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

    def messages(suspects: pa.Table, ranges: Sequence[QueueRange]) -> DataFrame:
        given = {
            name: text
            for name, text in source_options(spark, settings).items()
            if name.lower() != "failondataloss"
        }
        # A suspect of which messages have expired since is judged by its summaries.
        given |= {"pushdown": "true", "failOnDataLoss": "false"}
        rows = read(spark, ranges, columns=message_columns(by_seq=settings.by_seq), **given)
        few = suspects.num_rows <= _FEW and not settings.redact_keys
        if few:  # then other messages need not leave the Python worker
            return rows.where(F.col("sharding_key").isin(suspects["key"].to_pylist()))
        rows = redacted_rows(rows, "sharding_key", settings)
        theirs = spark.createDataFrame(suspects.rename_columns(["topic", "sharding_key"]))
        return rows.join(F.broadcast(theirs), theirs.columns, "left_semi").select(*rows.columns)

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


KEYS, EVIDENCE = 20, 40  # rows of the tables; queues are few, and all are shown
_WRONG = "inversions + across + repeats + gaps"


def worst_keys(found: AuditJudgement) -> tuple[dict[str, Any], ...]:
    """Rows of keys with something wrong, those with the most first."""
    if not found.figures.wrong:
        return ()
    order = (F.expr(_WRONG).desc(), F.col("mixed").desc(), F.col("messages").desc(), "key")
    return _dicts(found.tables.keys.where("wrong").orderBy(*order).limit(KEYS))


def rows_to_show(found: AuditJudgement, worst: tuple[dict[str, Any], ...]) -> ShownRows:
    """What the report shows."""
    tables, times = found.tables, found.times.to_pylist() if found.times is not None else []
    by_kind = ("kind", "topic", "key", "message.store_ts", "message.queue_offset")
    return ShownRows(
        keys=worst,
        evidence=_dicts(tables.evidence.orderBy(*by_kind).limit(EVIDENCE)) if times else (),
        queues=tuple(tables.queues.to_pylist()),
        losses=tuple(tables.losses.to_pylist()),
        times=tuple((row["start"] / 1000, row["kind"], row["count"]) for row in times),
        span=found.span / 1000,
        pictures=tuple(
            KeyPicture(key, _places(rows)) for key, rows in worst_pictures(found.pictures, worst)
        ),
    )


def _dicts(rows: DataFrame) -> tuple[dict[str, Any], ...]:
    return tuple(row.asDict(recursive=True) for row in rows.collect())


def _places(rows: list[dict[str, Any]]) -> tuple[ShownMessage, ...]:
    ordered = sorted(
        rows,
        key=lambda row: (row["store_ts"], row["broker"], row["queue_id"], row["queue_offset"]),
    )
    brokers = {row["broker"] for row in rows}
    return tuple(
        ShownMessage(
            queue=f"{row['broker']} {row['queue_id']}"
            if len(brokers) > 1
            else f"queue {row['queue_id']}",
            offset=row["queue_offset"],
            seq=row["seq"],
            at=row["store_ts"].timestamp(),
            wrong=row["wrong"],
        )
        for row in ordered
    )
