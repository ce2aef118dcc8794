"""The job: pin, count by key and queue, try selectors where the keys are, tell."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.skew.keys import HotKey
from orderly.selectors import Layout, layout_of
from orderly.spark import source
from orderly.spark.connecting import access_of
from orderly.spark.discovering import pin
from orderly.spark.jobs.hiding import hidden
from orderly.spark.jobs.origin import Origin, origin
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.jobs.skew.counted import Counted, QueueLoad
from orderly.spark.jobs.skew.findings import Findings
from orderly.spark.jobs.skew.judging import findings
from orderly.spark.jobs.skew.report import report
from orderly.spark.jobs.skew.settings import SkewSettings
from orderly.spark.jobs.skew.trying import NEW, TRIED, Plan, plan, tried
from orderly.spark.jobs.skew.what_if import what_if_fields
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import parse

_HEAD = 1000  # keys that are pinned one by one, to see what pinning could bring


@dataclass(frozen=True, slots=True)
class SkewResult:
    """What the job found.

    Attributes:
        findings: the figures.
        origin: what was read, and with what.
        keys: a row for each key: messages, share, in how many queues, and where most of it lies.
        queues: a row for each queue.
    """

    findings: Findings
    origin: Origin
    keys: DataFrame
    queues: DataFrame

    @property
    def verdict(self) -> Verdict:
        """WARNING: something stands out."""
        return self.findings.verdict

    @property
    def headline(self) -> str:
        """The whole in one sentence."""
        return self.findings.headline

    @property
    def document(self) -> dict[str, Any]:
        """What `result.json` holds."""
        return self.origin.document(self.verdict, self.findings.figures())


def run(
    spark: SparkSession,
    settings: SkewSettings,
    output: Output | None = None,
    progress: Progress = silent,
) -> SkewResult:
    """Count a topic's messages by key and queue, and see how even they are.

    Args:
        spark: the session.
        settings: what to read, and what to try.
        output: where tables and report go; None: nowhere.
        progress: tells of steps.

    Raises:
        OrderlyError: a bad option, no such topic, several topics, or no broker.
    """
    with progress("pinning offsets"):
        read = pin(settings.source)
        topic, layout = _layout(settings.source, read)
    told = origin("skew", read, settings.options())
    parts = counts(spark, read, settings.source).persist()
    with progress("counting keys"):
        loads = _queues(topic, parts)
    with progress("trying selectors"):
        of = plan(layout, topic, loads, settings.what_if)
        it = findings(_counted(layout, of, loads, parts), settings.order, redact=settings.redact)
    table = _shown(keys_of(parts), it.counted.keyed, settings)
    result = SkewResult(it, told, table, _by_queue(parts))
    if output is not None:
        with progress("writing tables"):
            output.table("keys", result.keys)
            output.table("queues", result.queues)
            output.table("what_if", pa.Table.from_pylist(list(map(what_if_fields, it.what_if))))
        output.finish(result.document, report(it, told))
    return result


def _layout(options: Mapping[str, str], read: Iterable[QueueRange]) -> tuple[str, Layout]:
    """The topic, and its queues as producers count them now."""
    topics = sorted({each.queue.topic for each in read})
    if len(topics) != 1:
        raise ConfigError(
            f"skew looks at one topic, and these are {len(topics)}: keys of different topics have"
            " nothing to do with each other"
        )
    wanted = parse(options)
    with closing(access_of(wanted).client()) as client:
        return topics[0], layout_of(client.routes.get(topics[0]))


# --- counting ------------------------------------------------------------------------------------


def counts(
    spark: SparkSession, read: Iterable[QueueRange], options: Mapping[str, str]
) -> DataFrame:
    """Messages by key (null: none) and queue, and what was lost; all of a key in one partition.

    Readers send a summary of each key and range, so messages themselves never leave them.
    """
    given = {**source.spread(spark, options), "emit": "summary"}
    summaries = source.read(spark, tuple(read), **given)
    return (
        summaries.repartition("key")
        .groupBy("key", "broker", "queue_id")
        .agg(f.sum("n").alias("n"), f.sum("lost").alias("lost"))
    )


def keys_of(parts: DataFrame) -> DataFrame:
    """A row for each key."""
    place = f.struct("n", "broker", "queue_id")  # the largest; of equal ones always the same
    return (
        parts.where("key is not null and n > 0")
        .groupBy("key")
        .agg(f.sum("n").alias("messages"), f.count("*").alias("queues"), f.max(place).alias("main"))
        .select("key", "messages", "queues", "main.broker", "main.queue_id")
    )


def _shown(keys: DataFrame, keyed: int, settings: SkewSettings) -> DataFrame:
    """The table of keys."""
    share = (f.col("messages") / f.lit(max(1, keyed))).alias("share")
    key = hidden(f.col("key")) if settings.redact else f.col("key")
    return keys.select(key.alias("key"), "messages", share, "queues", "broker", "queue_id")


def _by_queue(parts: DataFrame) -> DataFrame:
    keyed = f.sum(f.when(f.col("key").isNotNull(), f.col("n")).otherwise(0))
    return (
        parts.groupBy("broker", "queue_id")
        .agg(
            f.sum("n").alias("messages"),
            keyed.alias("keyed"),
            f.count_if(f.col("key").isNotNull()).alias("keys"),
            f.sum("lost").alias("lost"),
        )
        .orderBy("broker", "queue_id")
    )


# --- to one machine ------------------------------------------------------------------------------


def _queues(topic: str, parts: DataFrame) -> dict[MessageQueue, QueueLoad]:
    return {
        MessageQueue(topic, row["broker"], row["queue_id"]): QueueLoad(
            row["messages"], row["keyed"], row["lost"]
        )
        for row in _by_queue(parts).collect()
    }


def _counted(
    layout: Layout, of: Plan, loads: Mapping[MessageQueue, QueueLoad], parts: DataFrame
) -> Counted:
    """Collect what does not grow with the number of keys.

    Not even the number of different sizes does: it is at most sqrt(2 x messages).
    """
    keys = keys_of(parts)
    topic = of.present[0].topic
    split = f.count_if(f.col("queues") > 1).alias("splits")
    sizes = keys.groupBy("messages").agg(f.count("*").alias("keys"), split).collect()
    head = keys.orderBy(f.desc("messages"), "key").limit(_HEAD).collect()
    nothing = QueueLoad(0, 0, 0)
    return Counted(
        topic=topic,
        layout=layout,
        queues={queue: loads.get(queue, nothing) for queue in of.present},
        keys=sum(row["keys"] for row in sizes),
        splits=sum(row["splits"] for row in sizes),
        head=[
            HotKey(
                row["key"],
                row["messages"],
                row["messages"],
                MessageQueue(topic, row["broker"], row["queue_id"]),
                row["queues"] > 1,
            )
            for row in head
        ],
        sizes={row["messages"]: row["keys"] for row in sizes},
        tried=_tried(parts, of) if sizes else {},
    )


def _tried(parts: DataFrame, of: Plan) -> dict[tuple[str, int], tuple[list[int], int]]:
    """Try everything where the keys are; sums by queue come here."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return tried(batches, of)

    rows = (
        parts.where("key is not null and n > 0")
        .select("key", "broker", "queue_id", "n")
        .mapInArrow(work, from_arrow_schema(TRIED))
        .groupBy("selector", "queues", "place")
        .agg(f.sum("messages").alias("messages"), f.sum("moved").alias("moved"))
        .collect()
    )
    refused = {row["selector"] for row in rows if row["place"] == NEW}
    loads: dict[tuple[str, int], list[int]] = {}
    moved: dict[tuple[str, int], int] = defaultdict(int)
    for row in rows:
        name, number = row["selector"], row["queues"]
        if name not in refused:
            loads.setdefault((name, number), [0] * number)[row["place"]] = row["messages"]
            moved[name, number] += row["moved"]
    return {each: (loads[each], moved[each]) for each in sorted(loads)}
