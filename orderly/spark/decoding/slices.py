"""Slices of a buffer as an Arrow column, copied once, in C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orderly.spark.decoding.heads import Ints


def slices(
    data: bytes | npt.NDArray[np.uint8], starts: Ints, ends: Ints, kind: pa.DataType
) -> pa.Array:
    """The column whose values are `data[start:end]`; slices rise and do not overlap.

    Starts and ends in turn are the offsets of an Arrow array over the buffer as it is; every
    second of its values is a wanted one.
    """
    if not len(starts):
        return pa.array([], kind)
    cuts = np.empty(2 * len(starts), np.int32)
    cuts[::2], cuts[1::2] = starts, ends
    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    over = pa.Array.from_buffers(kind, len(cuts) - 1, buffers)
    return over.take(pa.array(np.arange(0, len(cuts), 2)))
