"""The columns of a topic, as a table: names, types, and what each one holds.

Arrow types are those that Spark maps to the same names one to one: a batch whose schema differs
from the declared one in any of them is refused by Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from orderly.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """A column of the source.

    Attributes:
        name: in DataFrames.
        arrow: its Arrow type.
        spark: its type in Spark's DDL.
        about: what it holds.
        nullable: whether a message may have none.
        default: whether it is read when nobody says which columns.
    """

    name: str
    arrow: pa.DataType
    spark: str
    about: str
    nullable: bool = False
    default: bool = True


_TIME = pa.timestamp("us", tz="UTC")
_PROPERTIES = pa.map_(pa.string(), pa.field("value", pa.string(), nullable=False))

COLUMNS: dict[str, SourceColumn] = {
    column.name: column
    for column in (
        SourceColumn("topic", pa.string(), "string", "the topic read"),
        SourceColumn("broker", pa.string(), "string", "the broker's name"),
        SourceColumn("queue_id", pa.int32(), "int", "the queue on that broker"),
        SourceColumn("queue_offset", pa.int64(), "bigint", "the message's place in its queue"),
        SourceColumn(
            "msg_id", pa.string(), "string", "the id of the stored copy (offset message id)"
        ),
        SourceColumn("uniq_key", pa.string(), "string", "the sender's id, kept over retries", True),
        SourceColumn("tag", pa.string(), "string", "the message's tag", True),
        SourceColumn(
            "keys", pa.string(), "string", "words for the index, separated by spaces", True
        ),
        SourceColumn(
            "sharding_key", pa.string(), "string", "messages with equal keys are in order", True
        ),
        SourceColumn(
            "seq", pa.int64(), "bigint", "the number in the property that `seqProperty` names", True
        ),
        SourceColumn("born_ts", _TIME, "timestamp", "when it was sent, by the sender's clock"),
        SourceColumn("store_ts", _TIME, "timestamp", "when it was stored, by the broker's clock"),
        SourceColumn("reconsume_times", pa.int32(), "int", "how often it was consumed before"),
        SourceColumn("sys_flag", pa.int32(), "int", "RocketMQ's flag bits"),
        SourceColumn(
            "store_size", pa.int32(), "int", "how many bytes it takes in the broker's log"
        ),
        SourceColumn("commitlog_offset", pa.int64(), "bigint", "its place in the broker's log"),
        SourceColumn("body", pa.binary(), "binary", "the message itself, decompressed"),
        SourceColumn(
            "properties", _PROPERTIES, "map<string,string>", "all properties", default=False
        ),
        SourceColumn(
            "attempt",
            pa.int32(),
            "int",
            "which attempt of a repeated send it is, from 2",
            nullable=True,
            default=False,
        ),
        SourceColumn(
            "body_sum",
            pa.int64(),
            "bigint",
            "the body's length and checksum in one number: equal for equal bodies",
            default=False,
        ),
    )
}
DEFAULT_COLUMNS = tuple(column.name for column in COLUMNS.values() if column.default)


def arrow_schema(names: Sequence[str]) -> pa.Schema:
    """The Arrow schema of columns.

    Args:
        names: in the order wanted.

    Raises:
        ConfigError: a name that is not a column's, or one twice.
    """
    unknown = [name for name in names if name not in COLUMNS]
    if unknown or len(set(names)) != len(names):
        raise ConfigError(
            f"{', '.join(unknown) or 'one of the columns, given twice,'} is not a column of a"
            f" topic; the columns are {', '.join(COLUMNS)}"
        )
    return pa.schema(
        [pa.field(name, COLUMNS[name].arrow, nullable=COLUMNS[name].nullable) for name in names]
    )
