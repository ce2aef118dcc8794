"""The data source `rocketmq`: its name, what Spark asks of it, registering it, reading, writing.

Users import `register` and `read` from `orderly.spark.source`, and what writes from
`orderly.spark.sink`.
"""

# ruff: noqa: N802  Spark's names for its methods
from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from orderly.config import check_topic
from orderly.config.arguments import (
    check_count,
    check_kind,
    check_named_texts,
    check_text,
    check_texts,
)
from orderly.errors import ConfigError
from orderly.protocol.properties import RESERVED
from orderly.spark.extra import check_version
from orderly.spark.offsets import QueueRange, dump_offsets, dump_queues
from orderly.spark.options import (
    BATCH,
    DEFAULT,
    SINGLE_QUEUE,
    SOURCE_OPTIONS,
    STREAM,
    ReadOptions,
    access_of,
    parse_read,
    parse_write,
)
from orderly.spark.readers import (
    BatchReader,
    FilteringReader,
    RangeReader,
    StreamReader,
    columns_of,
    expected,
    schema_of,
)
from orderly.spark.stamps import STAMPS
from orderly.spark.summary import needed
from orderly.spark.tracebacks import short_traceback
from orderly.spark.write_plan import check_write
from orderly.spark.writers import make_stream_writer, make_writer

NAME = "rocketmq"


class RocketMQDataSource(DataSource):
    """Topics as DataFrames: `spark.read.format("rocketmq")`, and writing them.

    Spark makes one for each use, in a process of its own, and pickles it: it holds the options
    as they were given and nothing else.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    @short_traceback
    def schema(self) -> StructType:
        """The columns of a read for which the user gives no schema."""
        return schema_of(parse_read(self._given, kind=""))

    @short_traceback
    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a batch."""
        options = parse_read(self._given, BATCH)
        reader = FilteringReader if options.pushdown else BatchReader
        return reader(options, _range_reader(options, schema))

    @short_traceback
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a stream."""
        options = parse_read(self._given, STREAM)
        return StreamReader(options, _range_reader(options, schema))

    @short_traceback
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a batch."""
        return make_writer(self._given, schema, overwrite)

    @short_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What writes a stream."""
        return make_stream_writer(self._given, schema, overwrite)


def _range_reader(options: ReadOptions, schema: StructType) -> RangeReader:
    columns = columns_of(schema, options)
    if options.summary:
        columns = needed(options.scan.seq_property)
    scan = replace(options.scan, columns=columns)
    return RangeReader(access_of(options).settled(), scan, expected(schema), options.summary)


_PLACING = ("topic", "topics", "topicPattern", "assign")
_REPLACED = {
    option.name.lower()
    for option in SOURCE_OPTIONS
    if option.name in _PLACING or option.name.startswith(("starting", "ending"))
}


def register(spark: SparkSession) -> None:
    """Make `format("rocketmq")` known to a session, and this library to its executors.

    Executors need Spark's own Python packages (pyarrow, numpy, pandas), but not orderly: it is sent
    to them. `orderly.spark.session.get_session` calls this; you can call it again.

    Raises:
        ConfigError: no session, a Spark that is too old, or a package that must be sent is not
            installed here.
    """
    from orderly.spark.bundling import ship  # noqa: PLC0415  not in the processes that plan a read

    _check_session(spark)
    check_version(spark.version)
    ship(spark.sparkContext)
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
        pinned: as `orderly.spark.discovering.pin` returns them; not empty.
        columns: the wanted columns; None: as the options say.
        options: of the source. `pinned` replaces the options that say what to read, from where to
            where.

    Raises:
        ConfigError: an argument of another kind.
    """
    _check_session(spark)
    pinned = _checked_ranges(pinned)
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


def _checked_ranges(pinned: Sequence[QueueRange]) -> tuple[QueueRange, ...]:
    found = tuple(pinned) if isinstance(pinned, Iterable) else ()
    if not found or not all(isinstance(each, QueueRange) for each in found):
        raise ConfigError("pinned must be ranges as `pin` returns them, one at least")
    return found


def _exactly(pinned: Sequence[QueueRange]) -> Mapping[str, str]:
    """The options that read these ranges and nothing else."""
    return {
        "assign": dump_queues(each.queue for each in pinned),
        "startingOffsets": dump_offsets({each.queue: each.start for each in pinned}),
        "endingOffsets": dump_offsets({each.queue: each.end for each in pinned}),
    }


# --- writing in order: rows of a key brought together, sorted, and sent ---------------------------


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

    Rows of one key go to one partition and are sorted there by `order_by` alone. So keys alternate
    as they did in time, and consumers can work on many at once.

    When it returns, every message is acknowledged. If it fails, a part can be in the topic. Write
    the same rows again; consumers recognise the copies (`orderly.spark.stamps`).

    Args:
        df: with the columns to send and no others.
        topic: the topic to send to; it must exist.
        order_by: a column of integers, dates or timestamps that rises within each key.
        key_column: the sharding key.
        partitions: how many tasks send; None: Spark's spark.sql.shuffle.partitions, or fewer.
        options: further options of the sink, such as `id_column="id"` for `idColumn`.

    Raises:
        ConfigError: the DataFrame is a stream, or an argument or a column that does not fit.
        TopicNotFound: there is no such topic; nothing was read.
    """
    if not hasattr(df, "isStreaming"):  # Spark has several classes of them
        raise ConfigError(f"df must be a DataFrame, not {type(df).__name__}")
    _check_writing(topic, order_by, options)
    check_text("key_column", key_column, empty=False)
    if partitions is not None:
        check_count("partitions", partitions, 1)
    if df.isStreaming:
        raise ConfigError(
            "a stream has no end to wait for: df.writeStream.foreachBatch(ordered_batches(…))"
        )
    register(df.sparkSession)
    given = _sink_options(topic, order_by, options)
    if key_column in df.columns:
        given["keyColumn"] = key_column
    selector = given.get("selector", DEFAULT)
    together = _keys_together(df, selector, key_column, partitions)
    check_write(parse_write(given), dict(df.dtypes))
    ordered = together.sortWithinPartitions(order_by)
    ordered.write.format(NAME).mode("append").options(**given).save()


def _check_writing(topic: str, order_by: str, options: Mapping[str, object]) -> None:
    check_topic(topic)
    check_text("order_by", order_by, empty=False)
    for name, value in options.items():
        check_kind(f"the option {name}", value, (str, int, type(None)), "a str or an int")


def _keys_together(df: DataFrame, selector: str, key: str, partitions: int | None) -> DataFrame:
    """Bring together what must keep its order."""
    if selector == SINGLE_QUEUE:
        return df.repartition(1)
    if key not in df.columns:
        raise ConfigError(f"the rows have no column {key!r}; give key_column=…")
    return df.repartition(key) if partitions is None else df.repartition(partitions, key)


def ordered_batches(
    *, topic: str, order_by: str, **options: str | int
) -> Callable[[DataFrame, int], None]:
    """Return a function for `DataStreamWriter.foreachBatch` that writes a stream in order.

        df.writeStream.foreachBatch(ordered_batches(topic="orders", order_by="seq", …))

    Within a batch the messages of a key are in the order of `order_by`. A batch is sent when the
    previous one is acknowledged. Rows that arrive late, in a later batch, come later. If a batch
    runs again, its rows are sent again.

    Args:
        topic: as for `write_ordered`.
        order_by: the column that rises within each key.
        options: further arguments.

    Raises:
        ConfigError: an argument of another kind.
        TopicNotFound: there is no such topic. This is checked at once.
    """
    _check_writing(topic, order_by, options)
    of_sink = {name: value for name, value in options.items() if name not in _OF_WRITE_ORDERED}
    check_write(parse_write(_sink_options(topic, order_by, of_sink)))

    @short_traceback
    def write(batch: DataFrame, _batch_id: int) -> None:
        write_ordered(batch, topic=topic, order_by=order_by, **options)  # type: ignore[arg-type]

    return write


_OF_WRITE_ORDERED = ("key_column", "partitions")


def _sink_options(topic: str, order_by: str, options: Mapping[str, object]) -> dict[str, str]:
    told = {name: value for name, value in options.items() if value is not None}
    given = {_camel_case(name): str(value) for name, value in told.items()}
    return given | {"topic": topic, "orderBy": order_by}


def user_properties(properties: Column | str) -> Column:
    """Of a map of properties those that may be sent again: without RocketMQ's own and the sink's.

    For rows that were read from a topic.
    """
    kept_out = sorted(RESERVED | STAMPS)
    return f.map_filter(properties, lambda name, _: ~name.isin(kept_out))


def _camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)
