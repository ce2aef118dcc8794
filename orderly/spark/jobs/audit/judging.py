"""The judgement: every key by its summaries, suspects by their messages, and all of it counted.

A key whose numbers rise one by one in each of its queues, and from queue to queue in the order of
storing, is in order: that is certain without looking at its messages. All others are suspects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.model import MessageQueue
from orderly.spark.jobs.audit.figures import AuditFigures
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.progress import Progress
from orderly.spark.offsets import QueueRange

Messages = Callable[[DataFrame, Sequence[QueueRange]], DataFrame]
"""Reads messages again, columns `message_columns`: those of the suspects (topic, key) at least,
which lie in these ranges."""

_KEPT = pyspark.StorageLevel.MEMORY_AND_DISK


@dataclass(frozen=True, slots=True)
class AuditJudgement:
    """What was found.

    Attributes:
        figures: counted.
        tables: in full.
        sequence: the judged messages of the suspects looked at (`sequences`); None: there
            are no suspects.
    """

    figures: AuditFigures
    tables: AuditTables
    sequence: DataFrame | None


def judge(
    parts: DataFrame, messages: Messages, settings: AuditSettings, progress: Progress
) -> AuditJudgement:
    """Find what is wrong.

    Args:
        parts: of `merged`.
        messages: called once if there are suspects.
        settings: of the audit.
        progress: shows the steps.
    """
    parts = parts.persist(_KEPT)
    keys = keys_of(parts, by_seq=settings.by_seq, gaps=settings.judges_gaps).persist(_KEPT)
    with progress("judging every key"):
        suspects = worst(keys, settings.look_at, settings.look_at_messages).persist(_KEPT)
        ranges = _ranges(parts, suspects)
    sequence, found, looked_at = None, no_evidence(parts.sparkSession), suspects
    if ranges:
        again = messages(suspects, ranges)
        sequence = sequences(again, suspects, by_seq=settings.by_seq).persist(_KEPT)
        found = evidence(sequence, gaps=settings.judges_gaps).persist(_KEPT)
        looked_at = _whole(sequence, keys)
    tables = AuditTables(
        judged_keys(keys, looked_at, found, gaps=settings.judges_gaps).persist(_KEPT),
        found,
        by_queue(parts, found).persist(_KEPT),
        losses_of(parts),
    )
    with progress("looking at suspects" if ranges else "counting"):
        figures = figures_of(tables)
    return AuditJudgement(figures, tables, sequence)


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


_KINDS = {"inversion": "inversions", "across": "across", "repeat": "repeats", "gap": "gaps"}
# What the summaries count of a suspect that was not looked at.
_INEXACT = {"inversions": "falls", "across": "falls_between", "repeats": "same", "gaps": "jumps"}


@dataclass(frozen=True, slots=True)
class AuditTables:
    """What an audit found, as DataFrames.

    Attributes:
        keys: a row for each key.
        evidence: a row for each thing that is wrong; see `evidence()`.
        queues: a row for each queue with messages.
        losses: a row for each queue with offsets that were gone.
    """

    keys: DataFrame
    evidence: DataFrame
    queues: DataFrame
    losses: DataFrame


def judged_keys(
    keys: DataFrame, looked_at: DataFrame, found: DataFrame, *, gaps: bool
) -> DataFrame:
    """Each key with what is wrong with it.

    Args:
        keys: of `keys_of`.
        looked_at: (topic, key) of the suspects that `found` covers.
        found: evidence.
        gaps: whether gaps are looked for.

    Returns:
        Rows of `keys`, and for each: inversions, across, repeats, resent, gaps, missing, exact
        (False: a suspect that was not looked at), wrong.
    """
    by = ("topic", "key")
    counts = found.groupBy(*by).agg(
        *(F.count_if(F.col("kind") == kind).alias(name) for kind, name in _KINDS.items()),
        F.count_if("same_id").alias("resent"),
        _bounded(F.sum(F.when(F.col("kind") == "gap", _wide("distance")))).alias("missing"),
    )
    looked_at = looked_at.withColumn("_looked_at", F.lit(True))
    rows = keys.join(F.broadcast(looked_at), [*by], "left").join(F.broadcast(counts), [*by], "left")
    exact = ~F.col("suspect") | F.coalesce("_looked_at", F.lit(False))
    rows = rows.withColumn("exact", exact)
    rows = rows.withColumns(
        {name: _counted(name, gaps=gaps) for name in _INEXACT}
        | {name: F.coalesce(F.col(name).cast("bigint"), F.lit(0)) for name in ("resent", "missing")}
    )
    wrong = sum((F.col(name) for name in _INEXACT), F.lit(0)) > 0
    return rows.withColumn("wrong", wrong | F.col("mixed")).drop("_looked_at", "suspect")


def _wide(name: str) -> Column:
    """A number of which a sum can't run over."""
    return F.col(name).cast("decimal(38,0)")


def _bounded(number: Column) -> Column:
    """The number, or the greatest there is; 0 for null, which `least` would pass over."""
    most = F.lit(2**63 - 1).cast("decimal(38,0)")
    return F.least(F.coalesce(number, F.lit(0)), most).cast("bigint")


def _counted(name: str, *, gaps: bool) -> Column:
    """The evidence's count; of a suspect that was not looked at the summaries'."""
    rough = F.lit(0) if name == "gaps" and not gaps else F.col(_INEXACT[name])
    return F.when(F.col("exact"), F.coalesce(F.col(name), F.lit(0))).otherwise(rough)


def by_queue(parts: DataFrame, found: DataFrame) -> DataFrame:
    """A row for each queue: messages, keyless, unnumbered, keys, and evidence by kind."""
    by = ("topic", "broker", "queue_id")
    keyed = F.col("key").isNotNull()
    counts = (
        parts.where("lost = 0")
        .groupBy(*by)
        .agg(
            F.sum("n").alias("messages"),
            F.sum(F.when(keyed, 0).otherwise(F.col("n"))).alias("keyless"),
            F.sum(F.when(keyed, F.col("n") - F.col("judged")).otherwise(0)).alias("unnumbered"),
            F.count_if(keyed).alias("keys"),
        )
    )
    place = found.select("topic", "kind", "message.broker", "message.queue_id")
    kinds = place.groupBy(*by).agg(
        *(F.count_if(F.col("kind") == kind).alias(name) for kind, name in _KINDS.items())
    )
    return counts.join(F.broadcast(kinds), [*by], "left").fillna(0, [*_KINDS.values()])


def losses_of(parts: DataFrame) -> DataFrame:
    """A row for each queue of which offsets were gone."""
    lost = parts.where("lost > 0")
    return lost.select("topic", "broker", "queue_id", "first_offset", "last_offset", "lost")


def figures_of(tables: AuditTables) -> AuditFigures:
    """Add up the tables."""
    queues = _one(
        tables.queues, messages="sum(messages)", keyless="sum(keyless)",
        unnumbered="sum(unnumbered)",
    )  # fmt: skip
    keys = _one(
        tables.keys, keys="count(*)", judged="sum(judged)", moved="count_if(queues > 1)",
        mixed="count_if(mixed)", wrong="count_if(wrong)", inversions="sum(inversions)",
        across="sum(across)", repeats="sum(repeats)", resent="sum(resent)", gaps="sum(gaps)",
        missing="sum(cast(missing AS decimal(38, 0)))", leaping="count_if(jumps > 0)",
        inexact="count_if(not exact)",
    )  # fmt: skip
    lost = _one(tables.losses, lost="sum(lost)")
    return AuditFigures(**queues, **keys, **lost)


def _one(rows: DataFrame, **sums: str) -> dict[str, int]:
    (row,) = rows.select(*(F.expr(text).alias(name) for name, text in sums.items())).collect()
    return {name: int(value or 0) for name, value in row.asDict().items()}


# --- summaries of chunks become one row for each key and queue, then one for each key -------------
# Only summaries are sorted here, never messages: a key with half of all messages has a row for
# each chunk, and costs no more than any other.


_BEFORE = """
    last_value(CASE WHEN judged > 0 THEN struct(last_seq AS seq, last_uniq AS uniq) END)
        IGNORE NULLS OVER earlier AS before"""

SAME_SEQ = "first_seq = before.seq"
SAME_UNIQ = "first_uniq = before.uniq"
JUMP = "CASE WHEN first_seq > before.seq THEN first_seq - 1 > before.seq END"  # -1 can't run over

_MERGED = f"""
WITH chunks AS (
  SELECT *, {_BEFORE}
  FROM {{summaries}}
  WINDOW earlier AS (
    PARTITION BY topic, broker, queue_id, key, lost > 0 ORDER BY first_offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
  topic, broker, queue_id, key,
  sum(n) AS n,
  sum(judged) AS judged,
  min(first_offset) AS first_offset,
  max(last_offset) AS last_offset,
  min_by(first_store_ts, first_offset) AS first_store_ts,
  max_by(last_store_ts, last_offset) AS last_store_ts,
  min_by(first_seq, first_offset) FILTER (WHERE judged > 0) AS first_seq,
  max_by(last_seq, last_offset) FILTER (WHERE judged > 0) AS last_seq,
  min(min_seq) AS min_seq,
  max(max_seq) AS max_seq,
  sum(falls) + count_if(first_seq < before.seq) AS falls,
  sum(repeats) + count_if({{same}}) AS repeats,
  sum(jumps) + count_if({{jump}}) AS jumps,
  min_by(first_uniq, first_offset) FILTER (WHERE judged > 0) AS first_uniq,
  max_by(last_uniq, last_offset) FILTER (WHERE judged > 0) AS last_uniq,
  sum(lost) AS lost
FROM chunks
GROUP BY topic, broker, queue_id, key, lost > 0
"""  # noqa: S608  no text from outside


def merged(summaries: DataFrame, *, by_seq: bool) -> DataFrame:
    """Fold summaries: one row for each key and queue, and one for each queue's losses.

    Args:
        summaries: columns of summary.SCHEMA; no two of a key and queue overlap.
        by_seq: whether numbers were judged, so that equal ones are the same message.

    Returns:
        Rows with the same columns.
    """
    query = _MERGED.format(
        summaries="{summaries}",
        same=SAME_SEQ if by_seq else SAME_UNIQ,
        jump=JUMP if by_seq else "false",
    )
    return summaries.sparkSession.sql(query, summaries=summaries)


_KEYS = """
WITH placed AS (
  SELECT *,
    max(last_store_ts) OVER earlier AS left_at,
    last_value(CASE WHEN judged > 0 THEN struct(last_seq AS seq, last_uniq AS uniq) END)
        IGNORE NULLS OVER earlier AS before
  FROM {parts}
  WHERE key IS NOT NULL
  WINDOW earlier AS (
    PARTITION BY topic, key ORDER BY first_store_ts, last_store_ts, broker, queue_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
)
SELECT
  topic, key,
  sum(n) AS messages,
  sum(judged) AS judged,
  count(*) AS queues,
  coalesce(bool_or(first_store_ts < left_at), false) AS mixed,
  coalesce(bool_or(first_store_ts = left_at), false) AS tied,
  min(first_store_ts) AS first_store_ts,
  max(last_store_ts) AS last_store_ts,
  min(min_seq) AS min_seq,
  max(max_seq) AS max_seq,
  sum(falls) AS falls,
  count_if(first_seq < before.seq) AS falls_between,
  sum(repeats) + count_if(<same>) AS same,
  sum(jumps) + count_if(<jump>) AS jumps
FROM placed
GROUP BY topic, key
"""


def keys_of(parts: DataFrame, *, by_seq: bool, gaps: bool) -> DataFrame:
    """Judge each key by its summaries.

    Args:
        parts: of `merged`.
        by_seq: as there.
        gaps: whether numbers that are left out count.

    Returns:
        A row for each key: messages, judged, queues, mixed (it was in one queue, then in another,
        then in the first again), falls (neighbours in a queue, the later number lower),
        falls_between (from one queue to the next), same (neighbours that are the same), jumps,
        suspect (whether its messages must be looked at).
    """
    query = _KEYS.replace("<same>", SAME_SEQ if by_seq else SAME_UNIQ)
    query = query.replace("<jump>", JUMP if by_seq else "false")
    keys = parts.sparkSession.sql(query, parts=parts)
    wrong = F.col("falls") + F.col("falls_between") + F.col("same")
    counted = wrong + F.col("jumps") if gaps else wrong
    # Of equal times the summaries can't say which came first.
    suspect = F.col("mixed") | F.col("tied") | (counted > 0)
    return keys.withColumn("suspect", suspect).drop("tied")


def worst(keys: DataFrame, most: int, messages: int) -> DataFrame:
    """The suspects to look at: (topic, key), those with the most falls first.

    Args:
        keys: of `keys_of`.
        most: how many.
        messages: keys with more are left out.
    """
    order = (
        (F.col("falls") + F.col("falls_between")).desc(),
        (F.col("same") + F.col("jumps")).desc(),
        F.col("messages").desc(),
        "topic",
        "key",
    )
    return (
        keys.where("suspect")
        .where(F.col("messages") <= messages)
        .orderBy(*order)
        .limit(most)
        .select("topic", "key")
    )


# --- what exactly is wrong with the suspects: pairs of messages that show it ----------------------
# repeat: a number (without numbers: an id) that the key had before; the copy stored first counts,
# the others are repeats: sent again by the producer if the ids are equal, else by the program.
# inversion: without repeats, a message after one with a higher number, in one queue. across: the
# same between two queues, by the times at which the broker stored them. gap: numbers between two
# that are there, and found nowhere; filled late is no gap: the late message is an inversion. All
# of a key's messages meet in one task, once, and are sorted there four times. Spark sorts on disk
# what does not fit, and `look_at_messages` bounds how long it takes.


_MESSAGE_TYPE = (
    "struct<broker string, queue_id int, queue_offset bigint, seq bigint, msg_id string,"
    " uniq_key string, born_ts timestamp, store_ts timestamp>"
)
_EVIDENCE_TYPE = (
    f"kind string, topic string, key string, message {_MESSAGE_TYPE}, before {_MESSAGE_TYPE},"
    " distance bigint, same_id boolean, adjacent boolean"
)
_MESSAGE_COLUMNS = (
    "broker", "queue_id", "queue_offset", "seq", "msg_id", "uniq_key", "born_ts", "store_ts",
)  # fmt: skip
_KEY = ("topic", "key")


def message_columns(*, by_seq: bool) -> tuple[str, ...]:
    """What `sequences` needs of the source."""
    names = [name for name in _MESSAGE_COLUMNS if by_seq or name != "seq"]
    return ("topic", "sharding_key", *names, "commitlog_offset")


def no_evidence(spark: SparkSession) -> DataFrame:
    """Evidence where there is none."""
    return spark.createDataFrame([], _EVIDENCE_TYPE)


def sequences(rows: DataFrame, suspects: DataFrame, *, by_seq: bool) -> DataFrame:
    """The judged messages of suspects, each with those that it must be compared with.

    Args:
        rows: messages with `message_columns(by_seq=…)`.
        suspects: (topic, key), few enough to be sent to every executor.
        by_seq: whether numbers were judged.

    Returns:
        A row for each message: topic, key, the columns of a message, `message` (all of them) and
        the messages `original` (stored first of the same), `in_queue`, `in_store`, `in_numbers`
        (before it there, without repeats); copy (1: it is the original), adjacent.
    """
    seq = F.col("seq") if by_seq else F.unix_millis("born_ts")
    same = seq.cast("string") if by_seq else F.coalesce("uniq_key", "msg_id")
    judged = rows.withColumnRenamed("sharding_key", "key").withColumn("seq", seq)
    judged = judged.where("seq IS NOT NULL").join(F.broadcast(suspects), [*_KEY], "left_semi")
    # All windows are of one key or part of it, so Spark moves each row once.
    here = judged.withColumns({"same": same, "message": F.struct(*_MESSAGE_COLUMNS)}).repartition(
        *_KEY
    )
    stored = ("store_ts", "broker", "commitlog_offset")
    copies = Window.partitionBy(*_KEY, "same").orderBy(*stored)
    queue = Window.partitionBy(*_KEY, "broker", "queue_id").orderBy("queue_offset")
    compared = here.withColumns(
        {"original": F.first("message").over(copies), "copy": F.row_number().over(copies)}
    ).withColumn("_once", F.when(F.col("copy") == 1, F.col("message")))
    return compared.withColumns(
        {
            "in_queue": _once_before(queue),
            "adjacent": F.coalesce(F.lag("same").over(queue) == F.col("same"), F.lit(False)),
            "in_store": _once_before(Window.partitionBy(*_KEY).orderBy(*stored)),
            "in_numbers": _once_before(Window.partitionBy(*_KEY).orderBy("seq")),
        }
    ).drop("_once", "same")


def _once_before(window: WindowSpec) -> Column:
    before = window.rowsBetween(Window.unboundedPreceding, -1)
    return F.last("_once", ignorenulls=True).over(before)


def evidence(sequence: DataFrame, *, gaps: bool) -> DataFrame:
    """Every pair of messages that shows what is wrong.

    Args:
        sequence: of `sequences`.
        gaps: whether to look for numbers that are left out.

    Returns:
        kind (inversion, across, repeat, gap), topic, key, message, before (both: broker, queue_id,
        queue_offset, seq, msg_id, uniq_key, born_ts, store_ts; of a repeat `before` is the
        original), distance (inversions: by how much the number fell; gap: how many are missing),
        same_id and adjacent (repeats only: equal ids; nothing of the key in between).
    """
    original = F.col("copy") == 1
    # Equal times say nothing between two brokers; in one broker's log the place does.
    across = F.expr(
        "seq < in_store.seq"
        " AND struct(broker, queue_id) != struct(in_store.broker, in_store.queue_id)"
        " AND (broker = in_store.broker OR store_ts > in_store.store_ts)"
    )
    found = [
        _found("repeat", ~original, "original", F.lit(None)),
        _found("inversion", original & F.expr("seq < in_queue.seq"), "in_queue",
               _between("in_queue.seq", "seq")),
        _found("across", original & across, "in_store", _between("in_store.seq", "seq")),
    ]  # fmt: skip
    if gaps:  # numbers rise here, so `seq - 1` can't run over
        leap = original & F.expr("CASE WHEN seq > in_numbers.seq THEN seq - 1 > in_numbers.seq END")
        missing = _between("seq", "in_numbers.seq") - 1
        found.append(_found("gap", leap, "in_numbers", missing))
    lines = sequence.select(
        *_KEY, "message", F.explode(F.array_compact(F.array(*found))).alias("_")
    )
    return lines.select("_.kind", *_KEY, "message", *(f"_.{name}" for name in _FOUND))


_FOUND = ("before", "distance", "same_id", "adjacent")


def _found(kind: str, where: Column, before: str, distance: Column) -> Column:
    """What is to be said of a message, where it is so; else null."""
    same_id = F.coalesce(F.col("message.uniq_key") == F.col("original.uniq_key"), F.lit(False))
    repeat = kind == "repeat"
    return F.when(
        where,
        F.struct(
            F.lit(kind).alias("kind"),
            F.col(before).alias("before"),
            distance.cast("bigint").alias("distance"),
            (same_id if repeat else F.lit(None).cast("boolean")).alias("same_id"),
            (F.col("adjacent") if repeat else F.lit(None).cast("boolean")).alias("adjacent"),
        ),
    )


def _between(higher: str, lower: str) -> Column:
    """The difference; the greatest number that there is where it does not fit."""
    return F.expr(f"coalesce(try_subtract({higher}, {lower}), {2**63 - 1})")
