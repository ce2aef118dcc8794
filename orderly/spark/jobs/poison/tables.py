"""The tables of a group's failures, worked out by Spark from its cases.

A message counts once, however often it was stored: a parked one by its place in the source queue,
a dead letter by its sender's id.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from orderly.model import MessageQueue
from orderly.protocol.parked_key import ParkedKey
from orderly.spark.jobs.hiding import hidden
from orderly.spark.jobs.poison.cases import CaseKind

WAITING, SETTLED, GIVEN_UP, UNKNOWN = "waiting", "settled", "given up", "unknown"
_QUEUE = ("topic", "broker", "queue_id")
_KEY = ("topic", "key", "key_is_int")
_NO_CAUSE = "its failure is not on record any more"
_DIGITS = 12  # of a cluster's name


def _is(kind: CaseKind) -> Column:
    return sf.col("kind") == kind.value


def once(cases: DataFrame) -> DataFrame:
    """One row a message: of copies that of an attempt, then the last; of dead letters the first."""
    parked = sf.concat_ws("\x01", sf.lit("parked"), *_QUEUE, "queue_offset")
    dead = sf.concat_ws("\x01", sf.lit("dead"), sf.coalesce("topic", sf.lit("")), "message_id")
    moment = sf.unix_micros("at")
    best = sf.struct(
        ~_is(CaseKind.BEHIND),
        sf.when(_is(CaseKind.DEAD), -moment).otherwise(sf.col("stored_offset")),
    )
    message = sf.struct(*(sf.col(name) for name in cases.columns))
    readable = cases.where(~_is(CaseKind.UNREADABLE))
    return (
        readable.groupBy(sf.when(_is(CaseKind.DEAD), dead).otherwise(parked))
        .agg(sf.max_by(message, best).alias("it"))
        .select("it.*")
    )


def judged(
    messages: DataFrame,
    parked: Iterable[tuple[MessageQueue, ParkedKey]],
    unknown: Iterable[MessageQueue],
) -> DataFrame:
    """Add `status`, and `cluster` with its `cause`: of a message that only waits, that of its key.

    Args:
        messages: of `once`.
        parked: what is on record as parked.
        unknown: source queues whose record could not be read.
    """
    spark = messages.sparkSession
    rows = [(*_of(queue), str(it.key), isinstance(it.key, int), it.next) for queue, it in parked]
    schema = (
        "topic string, broker string, queue_id int, key string, key_is_int boolean, next bigint"
    )
    record = sf.broadcast(spark.createDataFrame(rows, schema))
    marked = messages.join(record, [*_QUEUE, "key", "key_is_int"], "left")
    dark = sf.concat_ws("/", *_QUEUE).isin(list(map(str, unknown)))
    before = (
        Window.partitionBy(*_QUEUE, "key", "key_is_int")
        .orderBy("queue_offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    cause = sf.when(_is(CaseKind.DEAD), sf.col("cause")).otherwise(
        sf.coalesce(sf.last("cause", ignorenulls=True).over(before), sf.lit(_NO_CAUSE))
    )
    status = (
        sf.when(_is(CaseKind.DEAD), GIVEN_UP)
        .when(dark, UNKNOWN)
        .when(sf.col("queue_offset") >= sf.col("next"), WAITING)
        .otherwise(SETTLED)
    )
    text = sf.concat_ws("\x01", sf.when(_is(CaseKind.DEAD), "dead").otherwise("parked"), "cause")
    return (
        marked.withColumn("status", status)
        .withColumn("cause", cause)
        .withColumn("cluster", sf.substring(sf.sha2(text, 256), 1, _DIGITS))
        .drop("next")
    )


def redacted(messages: DataFrame) -> DataFrame:
    """Hashes instead of keys, as --redact-keys shows them everywhere; no text of a failure."""
    kind = sf.when(sf.col("key_is_int"), "i").otherwise("s")
    return messages.withColumns({"key": hidden(sf.col("key"), kind), "sample": sf.lit("")})


def clusters(messages: DataFrame) -> DataFrame:
    """What failed alike, most messages first."""
    failed = ~_is(CaseKind.BEHIND)
    waits = sf.col("status") == WAITING
    return (
        messages.groupBy("cluster", "cause")
        .agg(
            sf.max(sf.when(_is(CaseKind.DEAD), "dead").otherwise("parked")).alias("kind"),
            sf.count_if(failed).alias("messages"),
            sf.count_if(~failed).alias("behind"),
            sf.count_distinct(sf.when(sf.col("key").isNotNull(), sf.struct(*_KEY))).alias("keys"),
            sf.count_if(waits).alias("waiting"),
            sf.min(sf.when(failed, sf.col("at"))).alias("first_at"),
            sf.max(sf.when(failed, sf.col("at"))).alias("last_at"),
            sf.max("attempts").alias("most_attempts"),
            sf.max_by("sample", sf.when(failed, sf.unix_micros("at"))).alias("sample"),
            sf.max_by("body", sf.when(failed, sf.unix_micros("at"))).alias("body"),
        )
        .orderBy(sf.desc("messages"), "cluster")
    )


def trend(messages: DataFrame, seconds: int) -> DataFrame:
    """Failed messages by cluster and piece of time, of so many seconds each."""
    piece = sf.floor(sf.unix_seconds("at") / seconds) * seconds
    failed = messages.where(~_is(CaseKind.BEHIND))
    counts = failed.groupBy("cluster", sf.timestamp_seconds(piece).alias("at")).count()
    return counts.withColumnRenamed("count", "messages").orderBy("cluster", "at")


def keys(messages: DataFrame) -> DataFrame:
    """A row for each key: what waits, what was given up, and what went on behind it."""
    return (
        messages.groupBy(*_KEY)
        .agg(
            sf.count_if(sf.col("status") == WAITING).alias("waiting"),
            sf.count_if(_is(CaseKind.DEAD)).alias("dead"),
            sf.sum("later").alias("later"),
            sf.sum("went_on").alias("went_on"),
            sf.min(sf.when(sf.col("status") == WAITING, sf.col("queue_offset"))).alias("next"),
            sf.min("at").alias("first_at"),
            sf.max("at").alias("last_at"),
        )
        .orderBy(sf.desc("went_on"), sf.desc("dead"), sf.desc("waiting"), *_KEY)
    )


def replay_list(messages: DataFrame) -> DataFrame:
    """What there is to replay, each key's in the order in which it was sent, as far as is known.

    `number` counts within the key: by store time of the original, then by its offset. A dead letter
    whose original was not found stands behind the others, in the order of the dead letters.
    """
    order = Window.partitionBy(*_KEY).orderBy(
        sf.asc_nulls_last("origin_ts"), "broker", "queue_id", "queue_offset", "at", "stored_offset"
    )
    due = messages.where(sf.col("status").isin(WAITING, UNKNOWN, GIVEN_UP))
    return due.select(
        *_KEY,
        sf.row_number().over(order).alias("number"),
        "broker",
        "queue_id",
        "queue_offset",
        "status",
        "cluster",
        "message_id",
        "stored_topic",
        "stored_broker",
        "stored_queue_id",
        "stored_offset",
        "at",
    ).orderBy(*_KEY, "number")


def _of(queue: MessageQueue) -> Sequence[str | int]:
    return queue.topic, queue.broker_name, queue.queue_id
