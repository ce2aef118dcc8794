"""Between Arrow's columns and numpy's: keys as codes, times as integers, parts as a batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.model import MessageQueue
from orderly.spark.summary.groups import Bools, Ints
from orderly.spark.summary.parts import Parts
from orderly.spark.summary.schema import SCHEMA


def coded(keys: pa.StringArray) -> tuple[Ints, pa.StringArray]:
    """Number the keys: a code for each row, and each code's key (null is a key, too)."""
    encoded = pc.dictionary_encode(keys, null_encoding="encode")
    return integers(encoded.indices), encoded.dictionary


def integers(column: pa.Array) -> Ints:
    """A column's numbers, or times in microseconds; 0 where there is none."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    filled = column.fill_null(0) if column.null_count else column
    numbers: Ints = filled.to_numpy().astype(np.int64, copy=False)
    return numbers


def validity(column: pa.Array) -> Bools:
    """Where a column has a value."""
    if not column.null_count:
        return np.broadcast_to(np.True_, len(column))
    valid: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return valid


def record(queue: MessageQueue, keys: pa.StringArray, parts: Parts) -> pa.RecordBatch:
    """Write parts as a batch of SCHEMA.

    Args:
        queue: of all parts.
        keys: one for each part.
        parts: in any order of keys.
    """
    size = len(keys)
    nothing = parts.judged == 0
    numbers = parts.numbers
    columns = {
        "topic": pa.repeat(queue.topic, size),
        "broker": pa.repeat(queue.broker_name, size),
        "queue_id": pa.repeat(pa.scalar(queue.queue_id, pa.int32()), size),
        "key": keys,
        "n": pa.array(parts.n),
        "judged": pa.array(parts.judged),
        "first_offset": pa.array(parts.first_offset),
        "last_offset": pa.array(parts.last_offset),
        "first_store_ts": pa.array(parts.first_store).view(_TIME),
        "last_store_ts": pa.array(parts.last_store).view(_TIME),
        "first_seq": pa.array(numbers.first, mask=nothing),
        "last_seq": pa.array(numbers.last, mask=nothing),
        "min_seq": pa.array(numbers.least, mask=nothing),
        "max_seq": pa.array(numbers.greatest, mask=nothing),
        "falls": pa.array(parts.falls),
        "repeats": pa.array(parts.repeats),
        "jumps": pa.array(parts.jumps),
        "first_uniq": numbers.first_uniq or pa.nulls(size, pa.string()),
        "last_uniq": numbers.last_uniq or pa.nulls(size, pa.string()),
        "lost": pa.repeat(pa.scalar(0, pa.int64()), size),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=SCHEMA)


_TIME = SCHEMA.field("first_store_ts").type
