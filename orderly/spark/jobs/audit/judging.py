"""The judgement: every key by its summaries, and suspects by their messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.model import MessageQueue
from orderly.spark.jobs.audit.evidence import evidence, nothing, sequences
from orderly.spark.jobs.audit.figures import Figures
from orderly.spark.jobs.audit.findings import Tables, by_queue, figures_of, judged_keys, losses_of
from orderly.spark.jobs.audit.keys import keys_of, worst
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import Progress
from orderly.spark.offsets.ranges import QueueRange

Messages = Callable[[DataFrame, Sequence[QueueRange]], DataFrame]
"""Reads messages again, columns `evidence.columns`: those of the suspects (topic, key) at least,
which lie in these ranges."""

_KEPT = pyspark.StorageLevel.MEMORY_AND_DISK


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was found.

    Attributes:
        figures: counted.
        tables: in full.
        sequence: the judged messages of the suspects looked at (`evidence.sequences`); None: there
            are no suspects.
    """

    figures: Figures
    tables: Tables
    sequence: DataFrame | None


def judge(
    parts: DataFrame, messages: Messages, settings: AuditSettings, progress: Progress
) -> Judgement:
    """Find what is wrong.

    Args:
        parts: of `merging.merged`.
        messages: called once if there are suspects.
        settings: of the audit.
        progress: told of the steps.
    """
    parts = parts.persist(_KEPT)
    keys = keys_of(parts, by_seq=settings.by_seq, gaps=settings.judges_gaps).persist(_KEPT)
    with progress("judging every key"):
        suspects = worst(keys, settings.look_at, settings.look_at_messages).persist(_KEPT)
        ranges = _ranges(parts, suspects)
    sequence, found, looked_at = None, nothing(parts.sparkSession), suspects
    if ranges:
        again = messages(suspects, ranges)
        sequence = sequences(again, suspects, by_seq=settings.by_seq).persist(_KEPT)
        found = evidence(sequence, gaps=settings.judges_gaps).persist(_KEPT)
        looked_at = _whole(sequence, keys)
    tables = Tables(
        judged_keys(keys, looked_at, found, gaps=settings.judges_gaps).persist(_KEPT),
        found,
        by_queue(parts, found).persist(_KEPT),
        losses_of(parts),
    )
    with progress("looking at suspects" if ranges else "counting"):
        figures = figures_of(tables)
    return Judgement(figures, tables, sequence)


def _whole(sequence: DataFrame, keys: DataFrame) -> DataFrame:
    """The suspects all messages of which could be read again; of others some have expired."""
    counts = sequence.groupBy("topic", "key").agg(F.count("*").alias("judged"))
    whole = keys.select("topic", "key", "judged").join(F.broadcast(counts), [*counts.columns])
    return whole.select("topic", "key")


def _ranges(parts: DataFrame, suspects: DataFrame) -> list[QueueRange]:
    """Where the suspects' messages are; [] if there are none."""
    queue = ("topic", "broker", "queue_id")
    rows = (
        parts.join(F.broadcast(suspects), ["topic", "key"], "left_semi")
        .groupBy(*queue)
        .agg(F.min("first_offset").alias("start"), (F.max("last_offset") + 1).alias("end"))
        .collect()
    )
    return sorted(
        QueueRange(MessageQueue(*(row[name] for name in queue)), row.start, row.end) for row in rows
    )
