"""Rows as pieces of batch requests, one sequence of pieces for each queue. Pure: numpy, pyarrow.

The bytes are those of `orderly.protocol.outgoing.encode_batch`, made for whole columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_HEAD = np.dtype(
    [("size", ">i4"), ("magic", ">i4"), ("checksum", ">i4"), ("flag", ">i4"), ("body", ">i4")]
)
_OVERHEAD = _HEAD.itemsize + 2  # two bytes for the size of the properties


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive members of a batch for one queue.

    Attributes:
        place: the queue's, in the topic's list.
        data: the members, encoded; a copy, so that what waits for one queue does not keep all.
        rows: how many.
    """

    place: int
    data: bytes
    rows: int


def members(body: pa.Array, texts: pa.Array) -> pa.Array:
    """Each message as a member of a batch, as a binary array.

    Args:
        body: binary.
        texts: the properties, binary.
    """
    body_sizes = np.asarray(pc.binary_length(body))
    text_sizes = np.asarray(pc.binary_length(texts))
    heads = np.zeros(len(body), _HEAD)
    heads["size"] = _OVERHEAD + body_sizes + text_sizes
    heads["body"] = body_sizes
    return pc.binary_join_element_wise(
        column_of(heads), body, column_of(text_sizes.astype(">i2")), texts, b""
    )


def pieces(
    encoded: pa.Array, places: npt.NDArray[np.int64], queues: int, limit: int
) -> Iterator[Piece]:
    """Sort members by queue and cut them; rows of one queue keep their order.

    Args:
        encoded: by `members`.
        places: of each, its queue's place.
        queues: how many the topic has.
        limit: bytes of a piece; a member that is longer is a piece by itself.
    """
    by_queue = encoded.take(pa.array(np.argsort(places, kind="stable")))
    bounds = np.frombuffer(by_queue.buffers()[1], np.int32)
    data = memoryview(by_queue.buffers()[2])
    start = 0
    for place, count in enumerate(np.bincount(places, minlength=queues).tolist()):
        end = start + count
        while start < end:
            fitting = int(np.searchsorted(bounds, bounds[start] + limit, side="right")) - 1
            stop = min(max(fitting, start + 1), end)
            yield Piece(place, data[bounds[start] : bounds[stop]].tobytes(), stop - start)
            start = stop


def column_of(values: npt.NDArray[np.generic]) -> pa.Array:
    """The bytes of each element, as a binary array."""
    width, count = values.itemsize, len(values)
    bounds = np.arange(0, width * count + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(bounds), pa.py_buffer(values.tobytes())]
    )
