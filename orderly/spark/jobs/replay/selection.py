"""Which messages of a table are to be sent again, and in which order.

A key's messages go in the order of their queue's offsets. Where a key lies in several queues its
queues are merged by store time, then by broker, queue and offset: no more is known of their
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.output import require_format
from orderly.spark.offsets import QueueRange

KEY, PLACE, SEQ = "sharding_key", "place", "position"
QUEUE, OFFSET = ("topic", "broker", "queue_id"), "queue_offset"
_IN_A_MILLISECOND = 1 << 20  # messages of one key; the time takes 41 bits of 63


@dataclass(frozen=True, slots=True)
class ReplaySelection:
    """Part of a table. What is not said selects everything.

    Args:
        since, until: times of storing in seconds since the epoch; `until` is not included.
        start, end: queue offsets, by queue; `end` is not included. Queues not named: all of them.
        keys: only these sharding keys.
        places: path of a Parquet table with the columns topic, broker, queue_id, queue_offset:
            only these messages.
    """

    since: float | None = None
    until: float | None = None
    start: Mapping[MessageQueue, int] = field(default_factory=dict)
    end: Mapping[MessageQueue, int] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    places: str = ""

    def of(self, table: DataFrame) -> DataFrame:
        """The selected messages of a table."""
        found = table
        for condition in self._conditions():
            found = found.where(condition)
        if self.keys:
            wanted = found.sparkSession.createDataFrame(
                [(it,) for it in self.keys], f"{KEY} string"
            )
            found = found.join(sf.broadcast(wanted.distinct()), KEY, "left_semi")
        if self.places:
            where = (*QUEUE, OFFSET)
            listed = found.sparkSession.read.parquet(self.places).select(*where).distinct()
            found = found.join(listed, [*where], "left_semi")
        return found

    def require_known(self, queues: Iterable[MessageQueue]) -> None:
        """See that offsets mean what they say: those of another queue would leave out nothing.

        Raises:
            ConfigError: a queue that is none of `queues`, or -1 or -2 for an edge.
        """
        known = {(it.broker_name, it.queue_id) for it in queues}
        for queue, offset in [*self.start.items(), *self.end.items()]:
            if (queue.broker_name, queue.queue_id) not in known:
                raise ConfigError(f"the table has no queue {queue}: its offset selects nothing")
            if offset < 0:
                raise ConfigError(
                    f"{offset} is not an offset of {queue}: leave the queue out to have all of it"
                )

    def _conditions(self) -> list[Column]:
        stored, offset = sf.col("store_ts"), sf.col(OFFSET)
        conditions = []
        if self.since is not None:
            conditions.append(stored >= _moment(self.since))
        if self.until is not None:
            conditions.append(stored < _moment(self.until))
        conditions += [~is_of(queue) | (offset >= at) for queue, at in self.start.items()]
        conditions += [~is_of(queue) | (offset < at) for queue, at in self.end.items()]
        return conditions


def is_of(queue: MessageQueue) -> Column:
    """Whether a row is of this queue: a table has one topic."""
    return (sf.col("broker") == queue.broker_name) & (sf.col("queue_id") == queue.queue_id)


def _moment(seconds: float) -> Column:
    return sf.timestamp_micros(sf.lit(round(seconds * 1_000_000)))


def numbered(selected: DataFrame) -> DataFrame:
    """Add `place` ("topic/broker/queue/offset"), and `position`, which rises within each key.

    `position` is the time of storing in milliseconds, shifted by 20 bits, plus a number among those
    of the same millisecond; where a broker's clock went back, the time stays. So it rises
    over several replays, too, and a consumer may go by it (`orderly.spark.stamps`).
    """
    of_key, of_queue = Window.partitionBy(KEY), Window.partitionBy(KEY, "broker", "queue_id")
    here = (Window.unboundedPreceding, Window.currentRow)
    moved = sf.size(sf.collect_set(sf.struct("broker", "queue_id")).over(of_key)) > 1
    at = sf.max("store_ts").over(of_queue.orderBy(OFFSET).rowsBetween(*here))
    marked = selected.withColumn("_moved", moved).withColumn("_at", at)  # a clock may go back
    merged = [sf.when(sf.col("_moved"), sf.col(it)) for it in ("_at", "broker", "queue_id")]
    order = [*merged, sf.col(OFFSET)]
    so_far = of_key.orderBy(*order).rowsBetween(*here)
    timed = marked.withColumn("_ms", sf.max(sf.unix_millis("store_ts")).over(so_far))
    within = sf.row_number().over(Window.partitionBy(KEY, "_ms").orderBy(*order))
    return timed.select(
        *selected.columns,
        place(),
        (sf.col("_ms") * _IN_A_MILLISECOND + within).alias(SEQ),
        "_moved",
    )


def keys_as_numbers(rows: DataFrame) -> DataFrame:
    """Rows with keys as numeric_mod takes them.

    A key that is not written as a producer writes a number becomes null, which the sink refuses:
    none of the topic's producers placed it by number.
    """
    number = sf.col(KEY).try_cast("bigint")
    return rows.withColumn(KEY, sf.when(number.cast("string") == sf.col(KEY), number))


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is selected.

    Attributes:
        messages: of which `keyless` have no sharding key.
        keys: different ones; `moved` of them lie in several queues.
        first, last: times of storing, seconds since the epoch; None: nothing is selected.
    """

    messages: int
    keyless: int
    keys: int
    moved: int
    first: float | None
    last: float | None


def by_key_and_queue(selected: DataFrame) -> DataFrame:
    """A row for each key and queue: messages, first and last place and time."""
    return selected.groupBy(KEY, *QUEUE).agg(
        sf.count("*").alias("messages"),
        sf.min(OFFSET).alias("first_offset"),
        sf.max(OFFSET).alias("last_offset"),
        sf.min("store_ts").alias("first_stored"),
        sf.max("store_ts").alias("last_stored"),
    )


def by_key(parts: DataFrame) -> DataFrame:
    """A row for each key, from `by_key_and_queue`."""
    return parts.groupBy(KEY).agg(
        sf.sum("messages").alias("messages"),
        sf.count("*").alias("queues"),
        sf.min(sf.concat_ws("/", *QUEUE)).alias("queue"),
        sf.min("first_offset").alias("first_offset"),
        sf.max("last_offset").alias("last_offset"),
        sf.min("first_stored").alias("first_stored"),
        sf.max("last_stored").alias("last_stored"),
    )


def extent(keys: DataFrame) -> Extent:
    """Add up the rows of `by_key`."""
    has_key = sf.col(KEY).isNotNull()
    row = keys.agg(
        sf.coalesce(sf.sum("messages"), sf.lit(0)),
        sf.coalesce(sf.sum(sf.when(~has_key, sf.col("messages"))), sf.lit(0)),
        sf.count_if(has_key),
        sf.count_if(has_key & (sf.col("queues") > 1)),
        sf.min(sf.unix_micros("first_stored")) / 1e6,
        sf.max(sf.unix_micros("last_stored")) / 1e6,
    ).first()
    assert row is not None
    return Extent(*row)


def later(table: DataFrame, selected: DataFrame) -> dict[tuple[str, int], int]:
    """For each queue of a table the first message that has no copy, behind one that has.

    Of a key whose messages are selected with holes, what lies in the holes comes later, too.

    Args:
        table: all of it.
        selected: of it.

    Returns:
        Offsets by broker and queue id; a queue that has no such message is not in it.
    """
    at = sf.struct("store_ts", "broker", "queue_id", OFFSET)
    firsts = selected.groupBy(KEY).agg(sf.min(at).alias("first"))
    behind = table.join(firsts, KEY).where(at > sf.col("first"))
    where = (*QUEUE, OFFSET)
    left_out = behind.join(selected.select(*where), [*where], "left_anti")
    rows = left_out.groupBy("broker", "queue_id").agg(sf.min(OFFSET).alias("at")).collect()
    return {(row.broker, row.queue_id): row.at for row in rows}


def queues_of(parts: DataFrame) -> tuple[tuple[str, int, int], ...]:
    """Broker, queue id and number of messages of each queue, from `by_key_and_queue`."""
    rows = parts.groupBy("broker", "queue_id").agg(sf.sum("messages")).collect()
    return tuple(sorted((row[0], row[1], row[2]) for row in rows))


def place() -> Column:
    """Of the original: "topic/broker/queue/offset"."""
    return sf.concat_ws("/", *QUEUE, OFFSET).alias(PLACE)


# --- the table: messages by topic, broker, queue_id and queue_offset ------------------------------
# A stream may go on adding to it. What a replay sends ends where each queue ended when it began.


NEEDED = (*QUEUE, OFFSET, KEY, "store_ts", "body")
_MAY_LACK = {"tag": "string", "keys": "string", "properties": "map<string,string>"}


def load_table(spark: SparkSession, path: str, table_format: str = "parquet") -> DataFrame:
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
            "some rows of the table have no place, or share one: each topic, broker, queue_id and"
            " queue_offset must occur exactly once. Drop the other rows"
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
    """Each queue up to the first offset that the table leaves out: what was there is not known."""
    here = Window.partitionBy("broker", "queue_id").orderBy(OFFSET)
    following = table.select("broker", "queue_id", OFFSET, sf.lead(OFFSET).over(here).alias("next"))
    ends = following.where("next IS NULL OR next > queue_offset + 1")
    rows = ends.groupBy("broker", "queue_id").agg(sf.min(OFFSET).alias("last")).collect()
    lasts = {(row.broker, row.queue_id): row.last for row in rows}
    return tuple(
        QueueRange(it.queue, it.start, lasts[it.queue.broker_name, it.queue.queue_id] + 1)
        for it in covered
    )
