"""The history as DataFrames: samples of queues and of groups, and all that is found in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.recording.reading import History
from orderly.monitoring.recording.rows import SCHEMA
from orderly.spark.jobs.backlog.analysing import FOUND, KEY, Rules, analysed
from orderly.spark.jobs.backlog.settings import BacklogSettings

# A queue in these states has no backlog that anybody could measure: a group is known without it.
_NO_BACKLOG = (str(QueueState.NEW), str(QueueState.NOT_APPLICABLE))
_KEY = KEY.names
_HOUR, _DAY = 3600, 86400  # seconds
_THURSDAY = 3  # days after a Monday: the epoch began on one


def snapshots(spark: SparkSession, history: History, settings: BacklogSettings) -> DataFrame:
    """The recorded rows that were asked for."""
    schema = from_arrow_schema(SCHEMA)
    frame = spark.createDataFrame(history.growing, schema)
    if history.files:
        paths = [f"file://{file.absolute()}" for file in history.files]  # Hadoop takes no %3D
        frame = frame.unionByName(spark.read.schema(schema).parquet(*paths))
    for name, globs in (("group", settings.groups), ("topic", settings.topics)):
        if globs:
            frame = frame.where(f.col(name).rlike(pattern(globs)))
    if settings.since is not None:
        frame = frame.where(f.col("at") >= f.lit(_moment(settings.since)))
    if settings.until is not None:
        frame = frame.where(f.col("at") < f.lit(_moment(settings.until)))
    return frame


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def pattern(globs: Sequence[str]) -> str:
    """Globs as one regular expression of whole names, as Java reads it: `*` and `?` alone."""
    parts = ("".join(_WILD.get(it, re.escape(it)) for it in glob) for glob in globs)
    return f"^(?:{'|'.join(parts)})$"


_WILD = {"*": ".*", "?": "."}


def samples(rows: DataFrame) -> DataFrame:
    """The samples of every queue, and those of every group: its queues added up.

    `whole` and `aged` say whether all of a group is in its backlog and its age. A sum of offsets
    of which one lacks is null.
    """
    queues = rows.select(
        f.lit("queue").alias("level"), "group", "topic", "broker", "queue_id", *_measured(rows)
    )
    groups = queues.groupBy("group", "at").agg(
        f.max("interval").alias("interval"),
        f.sum("backlog").alias("backlog"),
        f.max("head_age").alias("head_age"),
        *(
            f.when(f.bool_and(_counted(name)), f.sum(name)).alias(name)
            for name in ("committed", "maximum")
        ),
        f.sum("counted").alias("counted"),
        (f.bool_and(_counted("backlog")) & f.max("backlog").isNotNull()).alias("whole"),
        f.bool_and(_counted("head_age")).alias("aged"),
    )
    nowhere = {"topic": f.lit(""), "broker": f.lit(""), "queue_id": f.lit(-1)}
    groups = groups.withColumns({"level": f.lit("group"), **nowhere})
    return queues.drop("empty").unionByName(groups)


def _measured(rows: DataFrame) -> list[Column]:
    """A queue's columns; offsets without a backlog (it was never committed) tell nothing."""
    whole = rows["backlog"].isNotNull()
    return [
        (f.unix_micros("at") / 1e6).alias("at"),
        rows["interval"],
        rows["backlog"],
        rows["head_age"],
        f.when(whole, rows["committed"]).alias("committed"),
        f.when(whole, rows["max_offset"]).alias("maximum"),
        whole.cast("bigint").alias("counted"),
        whole.alias("whole"),
        rows["head_age"].isNotNull().alias("aged"),
        rows["state"].isin(*_NO_BACKLOG).alias("empty"),
    ]


def _counted(name: str) -> Column:
    """Whether a queue's value is in its group's; some queues have none, and do not count."""
    return f.col(name).isNotNull() | f.col("empty")


def found(of: DataFrame, rules: Rules) -> DataFrame:
    """A row for each series: its key, figures and periods."""

    def work(table: pa.Table) -> pa.Table:
        return analysed(table, rules)

    return of.groupBy(*_KEY).applyInArrow(work, from_arrow_schema(FOUND))


def periods(of: DataFrame, name: str) -> DataFrame:
    """The periods of one kind, a row each."""
    rows = of.select(*_KEY, f.explode(name).alias("period"))
    return rows.select(*_KEY, "period.*")


def season(of: DataFrame) -> DataFrame:
    """By weekday (1 is Monday) and hour, in UTC: what was behind; hours never measured lack."""
    # Spark's own `hour` and `weekday` look at the session's time zone, which may be any.
    days, hours = f.floor(f.col("at") / _DAY), f.floor(f.col("at") / _HOUR)
    weekday = (f.pmod(days + _THURSDAY, f.lit(7)) + 1).cast("int")
    return (
        of.where("whole")
        .groupBy(
            *_KEY,
            weekday.alias("weekday"),
            f.pmod(hours, f.lit(24)).cast("int").alias("hour"),
        )
        .agg(
            f.count("*").alias("samples"),
            f.avg("backlog").alias("mean"),
            f.max("backlog").alias("most"),
            f.max("head_age").alias("oldest"),
        )
    )


def curve(of: DataFrame, step: float) -> DataFrame:
    """The backlog of groups, in steps of so many seconds: the most of each step that is known."""
    begin = f.floor(f.col("at") / step) * step
    return (
        of.where(f.col("whole") & (f.col("level") == "group"))
        .groupBy("group", begin.alias("at"))
        .agg(f.max("backlog").alias("backlog"), f.max("head_age").alias("head_age"))
    )
