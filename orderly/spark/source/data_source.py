"""The data source `rocketmq`: what Spark asks for schema, readers and writers."""

# ruff: noqa: N802  Spark's names for its methods
from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from orderly.spark.connecting import access_of
from orderly.spark.options.parsing import ReadOptions, parse
from orderly.spark.options.table import BATCH, STREAM
from orderly.spark.sink import make_stream_writer, make_writer
from orderly.spark.source.batch import BatchReader
from orderly.spark.source.filtering import FilteringReader
from orderly.spark.source.parts import Reading
from orderly.spark.source.schema import columns_of, expected, schema_of
from orderly.spark.source.stream import StreamReader
from orderly.spark.summary import needed
from orderly.spark.told import told

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

    @told
    def schema(self) -> StructType:
        """The columns of a read for which the user gives no schema."""
        return schema_of(parse(self._given, kind=""))

    @told
    def reader(self, schema: StructType) -> DataSourceReader:
        """What reads a batch."""
        options = parse(self._given, BATCH)
        reader = FilteringReader if options.pushdown else BatchReader
        return reader(options, _reading(options, schema))

    @told
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """What reads a stream."""
        options = parse(self._given, STREAM)
        return StreamReader(options, _reading(options, schema))

    @told
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """What writes a batch."""
        return make_writer(self._given, schema, overwrite)

    @told
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """What writes a stream."""
        return make_stream_writer(self._given, schema, overwrite)


def _reading(options: ReadOptions, schema: StructType) -> Reading:
    columns = columns_of(schema, options)
    if options.summary:
        columns = needed(options.scan.seq_property)
    scan = replace(options.scan, columns=columns)
    return Reading(access_of(options).settled(), scan, expected(schema), options.summary)
