"""The properties of each row as the text they travel in. Pure: numpy, pyarrow.

The same text as `orderly.protocol.properties.encode_properties` makes, for whole columns. Nothing
is checked here: see `checking`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.protocol import properties as names
from orderly.spark.sink.rows import Rows
from orderly.spark.stamps import ID, SEQ

NAME_END, VALUE_END = 1, 2
_NAME_END, _VALUE_END = b"\x01", b"\x02"
_WAIT = names.WAIT.encode() + _NAME_END + b"true" + _VALUE_END


def property_texts(rows: Rows, ids: pa.Array, unique: pa.Array) -> pa.Array:
    """All properties of each row, as a binary array.

    Args:
        rows: what to send.
        ids: by which copies are recognised.
        unique: UNIQ_KEYs.
    """
    seq = None if rows.order is None else pa.array(rows.order).cast(pa.string())
    parts = [_property(names.UNIQ_KEY, unique), _WAIT, _property(ID, ids)]
    parts += [
        _property(name, column)
        for name, column in (
            (SEQ, seq),
            (names.SHARDING_KEY, rows.key_text),
            (names.TAGS, rows.tag),
            (names.KEYS, rows.keys),
        )
        if column is not None
    ]
    if rows.properties is not None:
        parts.append(_maps(rows.properties))
    return pc.binary_join_element_wise(*parts, b"")


def _property(name: str, values: pa.Array) -> pa.Array:
    """The property of each row; nothing where the value is null."""
    text = pc.binary_join_element_wise(
        name.encode() + _NAME_END, values.cast(pa.binary()), _VALUE_END, b""
    )
    return text.fill_null(b"") if text.null_count else text


def entries(
    maps: pa.Array,
) -> tuple[pa.Array, pa.Array, npt.NDArray[np.int32]]:
    """All names and all values of a column of maps, and where each row's begin and end."""
    bounds = np.frombuffer(maps.buffers()[1], np.int32)[maps.offset :][: len(maps) + 1]
    first, count = int(bounds[0]), int(bounds[-1] - bounds[0])
    names_, values = maps.keys.slice(first, count), maps.items.slice(first, count)
    return names_, values, bounds - first


def _maps(maps: pa.Array) -> pa.Array:
    """The properties that each map holds, one after the other."""
    found, values, bounds = entries(maps)
    if not len(found):
        return pa.array([b""] * len(maps), pa.binary())
    text = pc.binary_join_element_wise(
        found.cast(pa.binary()), _NAME_END, values.cast(pa.binary()).fill_null(b""), _VALUE_END, b""
    )
    ends = np.frombuffer(text.buffers()[1], np.int32)
    # A row's properties lie side by side in the text: its bounds are those of its entries.
    return pa.Array.from_buffers(
        pa.binary(), len(maps), [None, pa.py_buffer(ends[bounds]), text.buffers()[2]]
    )
