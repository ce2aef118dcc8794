"""Whether each key's rows were in one partition: found out once all tasks are done. Pure.

A task sees its own rows only, and Spark cannot be told by a writer to bring a key's rows together.
Tasks run side by side, so a key in two of them has no order. Each task tells which keys it had,
as hashes; of many keys the smallest hashes, so that tasks choose alike: two that share a share of
their keys share that share of their samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

SAMPLE = 16384  # hashes of a task, 128 KiB: for that many keys it is not a sample but all
_HASH_BYTES = 8

KeySample = npt.NDArray[np.uint64]


def key_sample(keys: Iterable[object]) -> KeySample:
    """Hashes of a task's keys: of all, or of SAMPLE of them.

    Args:
        keys: distinct strings or integers; None stands for all rows in one order.
    """
    digests = b"".join([blake2b(_text(key), digest_size=_HASH_BYTES).digest() for key in keys])
    return np.sort(np.frombuffer(digests, np.uint64))[:SAMPLE]


def scattered(samples: Sequence[KeySample]) -> int:
    """How many of the sampled keys were in more than one task; 0: none was seen to be."""
    if not samples:
        return 0
    _, tasks = np.unique(np.concatenate(samples), return_counts=True)
    return int(np.count_nonzero(tasks > 1))


def _text(key: object) -> bytes:
    return str(key).encode()
