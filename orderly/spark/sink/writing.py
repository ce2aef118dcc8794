"""Writing in order: rows of a key brought together, sorted, and sent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from orderly.config import check_topic
from orderly.config.arguments import check_kind, check_text
from orderly.config.numbers import check_count
from orderly.errors import ConfigError
from orderly.protocol.properties import RESERVED
from orderly.spark.sink.options import DEFAULT, SINGLE_QUEUE
from orderly.spark.source import register
from orderly.spark.stamps import STAMPS


def write_ordered(
    df: DataFrame,
    *,
    topic: str,
    order_by: str,
    key_column: str = "sharding_key",
    partitions: int | None = None,
    **options: str | int,
) -> None:
    """Send a DataFrame's rows to a topic, each key's in the order of `order_by`.

    Rows of one key go to one partition and are sorted there by `order_by` alone: keys alternate as
    they did in time, so that consumers can work on many at once.

    When it returns, every message is acknowledged. If it fails, a part may be in the topic: write
    the same rows again, and consumers recognise the copies (`orderly.spark.stamps`).

    Args:
        df: with the columns to send and no others.
        topic: where to; it must exist.
        order_by: a column of integers, dates or timestamps that rises within each key.
        key_column: the sharding key.
        partitions: how many tasks send; None: Spark's spark.sql.shuffle.partitions, or fewer.
        options: further ones of the sink, as `id_column="id"` for `idColumn`.

    Raises:
        ConfigError: the DataFrame is a stream, or an argument of another kind.
    """
    if not hasattr(df, "isStreaming"):  # Spark has several classes of them
        raise ConfigError(f"df must be a DataFrame, not {type(df).__name__}")
    _check_texts(topic, order_by, options)
    check_text("key_column", key_column, empty=False)
    if partitions is not None:
        check_count("partitions", partitions, 1)
    if df.isStreaming:
        raise ConfigError(
            "a stream has no end to wait for: df.writeStream.foreachBatch(ordered_batches(…))"
        )
    register(df.sparkSession)
    given = {_camel_case(name): str(value) for name, value in options.items()}
    selector = given.get("selector", DEFAULT)
    if key_column in df.columns:
        given["keyColumn"] = key_column
    given |= {"topic": topic, "orderBy": order_by}
    ordered = _together(df, selector, key_column, partitions).sortWithinPartitions(order_by)
    ordered.write.format("rocketmq").mode("append").options(**given).save()


def _check_texts(topic: str, order_by: str, options: Mapping[str, object]) -> None:
    check_topic(topic)
    check_text("order_by", order_by, empty=False)
    for name, value in options.items():
        check_kind(f"the option {name}", value, (str, int, type(None)), "a str or an int")


def _together(df: DataFrame, selector: str, key: str, partitions: int | None) -> DataFrame:
    """Bring together what must keep its order."""
    if selector == SINGLE_QUEUE:
        return df.repartition(1)
    if key not in df.columns:
        raise ConfigError(f"the rows have no column {key!r}; say key_column=…")
    return df.repartition(key) if partitions is None else df.repartition(partitions, key)


def ordered_batches(
    *, topic: str, order_by: str, **options: str | int
) -> Callable[[DataFrame, int], None]:
    """What `DataStreamWriter.foreachBatch` takes to write a stream in order.

        df.writeStream.foreachBatch(ordered_batches(topic="orders", order_by="seq", …))

    Within a batch a key's messages are in the order of `order_by`; a batch is sent when the one
    before it is acknowledged. Rows that the stream brings late, in a later batch, come later.
    A batch that is run again sends its rows again.

    Args:
        topic: as for `write_ordered`, like the others.
        order_by: the column that rises within each key.
        options: further arguments.

    Raises:
        ConfigError: an argument of another kind.
    """
    _check_texts(topic, order_by, options)

    def write(batch: DataFrame, _batch_id: int) -> None:
        write_ordered(batch, topic=topic, order_by=order_by, **options)  # type: ignore[arg-type]

    return write


def user_properties(properties: Column | str) -> Column:
    """Of a map of properties those that may be sent again: without RocketMQ's own and the sink's.

    For rows that were read from a topic.
    """
    kept_out = sorted(RESERVED | STAMPS)
    return f.map_filter(properties, lambda name, _: ~name.isin(kept_out))


def _camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)
