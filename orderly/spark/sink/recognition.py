"""The ids that tell copies of a message from other messages, and those that tell copies apart.

Pure: numpy, pyarrow and a hash.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.spark.sink.batches import column_of
from orderly.spark.sink.rows import Rows

_ID_BYTES = 16
_UNIQUE_DIGITS = 4  # of the counter at the end of a UNIQ_KEY
_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)


def recognition_ids(rows: Rows) -> pa.Array:
    """The id of each row: its own, or the hash of its key, its place in order and its body.

    A hash that nobody can make collide: a collision would be taken for a copy, and the message
    lost. The same in every process and release.
    """
    if rows.id is not None:
        return rows.id
    digests = b"".join(
        [blake2b(content, digest_size=_ID_BYTES).digest() for content in _contents(rows)]
    )
    return column_of(np.frombuffer(digests.hex().encode(), f"S{2 * _ID_BYTES}"))


def _contents(rows: Rows) -> list[bytes]:
    """Key, place in order and body of each row; different rows, different bytes."""
    assert rows.order is not None
    parts = [column_of(rows.order.astype(">i8")), rows.body.fill_null(b"")]
    if rows.key_text is not None:
        keys = rows.key_text.cast(pa.binary())
        # A missing key has the length -1, an empty one 0.
        sizes = pc.binary_length(keys).fill_null(-1)
        parts[:0] = [column_of(np.asarray(sizes).astype(">i4")), keys.fill_null(b"")]
    joined = pc.binary_join_element_wise(*parts, b"")
    contents: list[bytes] = joined.to_numpy(zero_copy_only=False).tolist()
    return contents


def unique_keys(prefix: str, first: int, count: int) -> pa.Array:
    """UNIQ_KEYs as `orderly.protocol.outgoing.unique_key` makes them, all of one moment.

    Args:
        prefix: all digits but those of the counter.
        first: where the counter stands.
        count: how many; those of one moment differ if they are 65536 at most.
    """
    counters = np.arange(first, first + count)
    digits = np.empty((count, len(prefix) + _UNIQUE_DIGITS), np.uint8)
    digits[:, : len(prefix)] = np.frombuffer(prefix.encode(), np.uint8)
    for place in range(_UNIQUE_DIGITS):
        digits[:, -1 - place] = _HEX[(counters >> 4 * place) & 0xF]
    return column_of(digits.view(f"S{digits.shape[1]}").reshape(count))
