"""The few rows of an audit's tables that its report shows, collected."""

from __future__ import annotations

from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from orderly.spark.jobs.audit.judging import Judgement
from orderly.spark.jobs.audit.shown import Picture, Place, Shown

KEYS, EVIDENCE = 20, 40  # rows of the tables; queues are few, and all are collected
PICTURES, DOTS = 4, 60
SPANS = 40  # of the time that has evidence
_WRONG = "inversions + across + repeats + gaps"


def worst_keys(keys: DataFrame, most: int) -> tuple[dict[str, Any], ...]:
    """Rows of keys with something wrong, those with the most first."""
    order = (F.expr(_WRONG).desc(), F.col("mixed").desc(), F.col("messages").desc(), "key")
    return _dicts(keys.where("wrong").orderBy(*order).limit(most))


def shown(found: Judgement) -> Shown:
    """Collect what is shown."""
    tables = found.tables
    places = ("topic", "broker", "queue_id")
    worst = worst_keys(tables.keys, KEYS)
    span, times = _times(tables.evidence)
    by_kind = ("kind", "topic", "key", "message.store_ts", "message.queue_offset")
    return Shown(
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


def _times(evidence: DataFrame) -> tuple[float, tuple[tuple[float, str, int], ...]]:
    """How much evidence there is in each span of time; the spans begin with the first of it."""
    at = F.unix_millis("message.store_ts")
    (ends,) = evidence.select(F.min(at).alias("low"), F.max(at).alias("high")).collect()
    if ends.low is None:
        return 1.0, ()
    span = max((ends.high - ends.low) // SPANS + 1, 1)
    start = F.floor((at - ends.low) / span) * span + ends.low
    rows = evidence.groupBy(start.alias("start"), "kind").count().orderBy("start", "kind").collect()
    return span / 1000, tuple((row["start"] / 1000, row["kind"], row["count"]) for row in rows)


def _pictures(found: Judgement, worst: tuple[dict[str, Any], ...]) -> tuple[Picture, ...]:
    chosen = [row for row in worst if row["exact"]][:PICTURES]
    if found.sequence is None or not chosen:
        return ()
    rows = reduce(DataFrame.unionByName, (_around(found, it["topic"], it["key"]) for it in chosen))
    by_key: dict[tuple[str, str], list[Row]] = {(it["topic"], it["key"]): [] for it in chosen}
    for row in rows.collect():
        by_key[row.topic, row.key].append(row)
    return tuple(Picture(key, _places(mine)) for (_, key), mine in by_key.items() if mine)


def _around(found: Judgement, topic: str, key: str) -> DataFrame:
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


def _places(rows: list[Row]) -> tuple[Place, ...]:
    ordered = sorted(rows, key=lambda row: (row.store_ts, row.broker, row.queue_id,
                                            row.queue_offset))  # fmt: skip
    brokers = {row.broker for row in rows}
    return tuple(
        Place(
            queue=f"{row.broker} {row.queue_id}" if len(brokers) > 1 else f"queue {row.queue_id}",
            offset=row.queue_offset,
            seq=row.seq,
            at=row.store_ts.timestamp(),
            wrong=bool(row.wrong),
        )
        for row in ordered
    )
