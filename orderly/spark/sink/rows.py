"""Rows of one partition as plain columns, whatever types they came in. Pure: numpy, pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.errors import InvalidMessage
from orderly.spark.sink.roles import Roles

_CHUNK_BYTES = 8 * 1024 * 1024  # Arrow's; what is encoded at once takes a few times that
_CHUNK_ROWS = 65536  # of the ids made at one moment that is the number that differ


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Some consecutive rows of a partition.

    Attributes:
        partition, first: which partition, and the number of the first row in it, from 0.
        body: binary.
        key: as it came, string or integer; what places the row. None: there is no such column.
        key_text: the key as it is sent.
        order: the column that numbers the rows of a key, as numbers (a timestamp: microseconds, a
            date: days, since 1970).
        tag, keys, id: strings.
        properties: maps of strings.
    """

    partition: int
    first: int
    body: pa.Array
    key: pa.Array | None
    key_text: pa.Array | None
    order: npt.NDArray[np.int64] | None
    tag: pa.Array | None
    keys: pa.Array | None
    properties: pa.Array | None
    id: pa.Array | None

    def __len__(self) -> int:
        return len(self.body)

    def where(self, row: int) -> str:
        """Name one of the rows, for an error."""
        return f"row {self.first + row} of partition {self.partition}"


def chunks(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that encoding it takes a bounded amount of memory, whatever its bodies."""
    parts = max(-(-batch.nbytes // _CHUNK_BYTES), -(-batch.num_rows // _CHUNK_ROWS), 1)
    size = max(-(-batch.num_rows // parts), 1)
    for start in range(0, batch.num_rows, size):
        yield batch.slice(start, size)


def read_rows(batch: pa.RecordBatch, roles: Roles, partition: int, first: int) -> Rows:
    """Take the columns out of a batch.

    Args:
        batch: of one partition.
        roles: of its columns.
        partition: its number.
        first: how many rows of the partition came before.

    Raises:
        InvalidMessage: a row without a value in the `orderBy` column.
    """
    key = _column(batch, roles.key)
    rows = Rows(
        partition=partition,
        first=first,
        body=batch.column(roles.body).cast(pa.binary()),
        key=key,
        key_text=None if key is None else key.cast(pa.string()),
        order=None,
        tag=_text(batch, roles.tag),
        keys=_text(batch, roles.keys),
        properties=_column(batch, roles.properties),
        id=_text(batch, roles.id),
    )
    if roles.order is None:
        return rows
    column = batch.column(roles.order)
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InvalidMessage(f"{rows.where(row)}: {roles.order!r}, its place in order, is null")
    return replace(rows, order=_numbers(column))


def _column(batch: pa.RecordBatch, name: str | None) -> pa.Array | None:
    return None if name is None else batch.column(name)


def _text(batch: pa.RecordBatch, name: str | None) -> pa.Array | None:
    return None if name is None else batch.column(name).cast(pa.string())


def _numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    return np.asarray(column.cast(pa.int64()), dtype=np.int64)
