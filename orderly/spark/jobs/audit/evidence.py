"""What exactly is wrong with the suspects: pairs of messages that show it.

- repeat: a number (without numbers: an id) that the key had before. The copy stored first counts,
  the others are repeats: sent again by the producer if the ids are equal, else by the program.
- inversion: without repeats, a message after one with a higher number, in one queue.
- across: the same between two queues, by the times at which the broker stored them.
- gap: numbers between two that are there, and found nowhere. Filled late is no gap: the late
  message is an inversion.

All of a key's messages meet in one task, once, and are sorted there four times. Spark sorts on
disk what does not fit, and `look_at_messages` bounds how long it takes.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812  as everybody does

_PLACE = (
    "struct<broker string, queue_id int, queue_offset bigint, seq bigint, msg_id string,"
    " uniq_key string, born_ts timestamp, store_ts timestamp>"
)
_EVIDENCE = (
    f"kind string, topic string, key string, message {_PLACE}, before {_PLACE}, distance bigint,"
    " same_id boolean, adjacent boolean"
)
_MESSAGE = (
    "broker", "queue_id", "queue_offset", "seq", "msg_id", "uniq_key", "born_ts", "store_ts",
)  # fmt: skip
_KEY = ("topic", "key")


def columns(*, by_seq: bool) -> tuple[str, ...]:
    """What `sequences` needs of the source."""
    names = [name for name in _MESSAGE if by_seq or name != "seq"]
    return ("topic", "sharding_key", *names, "commitlog_offset")


def nothing(spark: SparkSession) -> DataFrame:
    """Evidence where there is none."""
    return spark.createDataFrame([], _EVIDENCE)


def sequences(rows: DataFrame, suspects: DataFrame, *, by_seq: bool) -> DataFrame:
    """The judged messages of suspects, each with those that it must be compared with.

    Args:
        rows: messages with `columns(by_seq=…)`.
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
    here = judged.withColumns({"same": same, "message": F.struct(*_MESSAGE)}).repartition(*_KEY)
    stored = ("store_ts", "broker", "commitlog_offset")
    copies = Window.partitionBy(*_KEY, "same").orderBy(*stored)
    queue = Window.partitionBy(*_KEY, "broker", "queue_id").orderBy("queue_offset")
    told = here.withColumns(
        {"original": F.first("message").over(copies), "copy": F.row_number().over(copies)}
    ).withColumn("_once", F.when(F.col("copy") == 1, F.col("message")))
    return told.withColumns(
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
