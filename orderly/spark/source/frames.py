"""DataFrames of topics, from Python: registering the format, and reading pinned ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from orderly.config.arguments import check_named_texts, check_texts
from orderly.errors import ConfigError
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.offsets.text import dumps, dumps_queues
from orderly.spark.options.table import OPTIONS
from orderly.spark.source.data_source import NAME, RocketMQDataSource

_PLACES = ("topic", "topics", "topicPattern", "assign")
_REPLACED = {
    option.name.lower()
    for option in OPTIONS
    if option.name in _PLACES or option.name.startswith(("starting", "ending"))
}


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session. Without effect where it is.

    Raises:
        ConfigError: no session.
    """
    _check_session(spark)
    spark.dataSource.register(RocketMQDataSource)


def read(
    spark: SparkSession,
    pinned: Sequence[QueueRange],
    *,
    columns: Sequence[str] | None = None,
    **options: str,
) -> DataFrame:
    """Read pinned ranges; each use of the DataFrame reads exactly these messages.

    Args:
        spark: the session.
        pinned: as `orderly.spark.discovering.pin` tells them; not empty.
        columns: those wanted; None: as the options say.
        options: of the source. What to read, and from where to where, is replaced by `pinned`.

    Raises:
        ConfigError: an argument of another kind.
    """
    _check_session(spark)
    pinned = _checked(pinned)
    if columns is not None:
        check_texts("columns", columns)
    check_named_texts("options", options)
    register(spark)
    given = {name: text for name, text in options.items() if name.lower() not in _REPLACED}
    if columns is not None:
        given["columns"] = ",".join(columns)
    return spark.read.format(NAME).options(**given, **_exactly(pinned)).load()


def spread(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Options of the source by which all tasks have work, unless they say another number.

    A queue with half of all messages is read by several tasks then.
    """
    given = dict(options)
    if not any(name.lower() == "minpartitions" for name in given):
        given["minPartitions"] = str(spark.sparkContext.defaultParallelism)
    return given


def _check_session(spark: SparkSession) -> None:
    """By what is needed of it: Spark has several classes of sessions."""
    if not hasattr(spark, "dataSource") or not hasattr(spark, "read"):
        raise ConfigError(f"spark must be a SparkSession, not {type(spark).__name__}")


def _checked(pinned: Sequence[QueueRange]) -> tuple[QueueRange, ...]:
    found = tuple(pinned) if isinstance(pinned, Iterable) else ()
    if not found or not all(isinstance(each, QueueRange) for each in found):
        raise ConfigError("pinned must be ranges as `pin` tells them, one at least")
    return found


def _exactly(pinned: Sequence[QueueRange]) -> Mapping[str, str]:
    """The options that read these ranges and nothing else."""
    return {
        "assign": dumps_queues(each.queue for each in pinned),
        "startingOffsets": dumps({each.queue: each.start for each in pinned}),
        "endingOffsets": dumps({each.queue: each.end for each in pinned}),
    }
