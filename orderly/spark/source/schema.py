"""Between Spark's schemas and the columns read: what a user may ask for, and batches that fit.

Spark takes a record batch only if its schema equals the declared one in every name, type and
nullability.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from orderly.errors import ConfigError
from orderly.spark.columns import COLUMNS, arrow_schema
from orderly.spark.options.parsing import ReadOptions
from orderly.spark.summary import SCHEMA


def schema_of(options: ReadOptions) -> StructType:
    """What is read if the user gives no schema."""
    return from_arrow_schema(SCHEMA if options.summary else arrow_schema(options.columns))


def columns_of(schema: StructType, options: ReadOptions) -> tuple[str, ...]:
    """The columns of messages that a read with this schema needs, in its order.

    Raises:
        ConfigError: a column that there is not, or of another type.
    """
    declared = {name: column.spark for name, column in COLUMNS.items()}
    if options.summary:
        declared = {field.name: field.dataType.simpleString() for field in schema_of(options)}
    for field in schema:
        wanted = declared.get(field.name)
        if wanted is None:
            raise ConfigError(
                f"the schema has a column {field.name}, and a topic has none; there are"
                f" {', '.join(declared)}"
            )
        if field.dataType.simpleString() != wanted:
            raise ConfigError(
                f"column {field.name} is {wanted}, not {field.dataType.simpleString()}; declare it"
                " so, and cast it afterwards"
            )
    names = tuple(schema.names)
    if options.columns_given and names != options.columns:
        raise ConfigError(
            "give a schema or the option columns, not both: they name different columns"
        )
    return names


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch under the schema that Spark expects; nothing is copied."""
    if batch.schema.equals(schema):
        return batch
    return batch.select(schema.names).cast(schema)


def expected(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark expects of a reader."""
    return to_arrow_schema(schema, timezone="UTC")
