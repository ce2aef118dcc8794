"""Hashes of other clients over columns of keys, and the proxy's choice of a bucket, in numpy.

The same numbers as `orderly.selectors.cpp`, `go` and `proxy` give for a key, which the tests
compare. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from orderly.selectors import cpp, go, proxy

Bytes = npt.NDArray[np.uint8]
Bounds = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_LONG = 256  # bytes; longer keys are rare and hashed one by one, or all rows would be as wide


def fnv1a(data: Bytes, bounds: Bounds) -> Hashes:
    """FNV-1a, 32 bits, of each text; all texts lie in `data`, one ends where the next begins."""
    return _hashed(data, bounds, _fnv1a, go.fnv1a)


def murmur(data: Bytes, bounds: Bounds) -> Hashes:
    """libstdc++'s std::hash of each text, 64 bits; arguments as of `fnv1a`."""
    return _hashed(data, bounds, _murmur, cpp.murmur)


def _hashed(
    data: Bytes,
    bounds: Bounds,
    of_rows: Callable[[Bytes, Bounds], Hashes],
    of_one: Callable[[bytes], int],
) -> Hashes:
    lengths = np.diff(bounds)
    short = lengths <= _LONG
    found = np.empty(len(lengths), np.uint64)
    found[short] = of_rows(_rows(data, lengths, short), lengths[short])
    for row in np.flatnonzero(~short):
        found[row] = of_one(data[bounds[row] : bounds[row + 1]].tobytes())
    return found


def _rows(data: Bytes, lengths: Bounds, short: npt.NDArray[np.bool_]) -> Bytes:
    """The short texts, one a row, filled up with zeros to whole words."""
    own = lengths[short]
    width = -(-max(own.max(initial=0), 1) // cpp.WORD) * cpp.WORD
    rows = np.zeros((len(own), width), np.uint8)
    rows[np.arange(width) < own[:, None]] = data[np.repeat(short, lengths)]
    return rows


def _fnv1a(rows: Bytes, lengths: Bounds) -> Hashes:
    values = np.full(len(rows), go.BASIS, np.uint32)
    for place in range(lengths.max(initial=0)):
        then = (values ^ rows[:, place]) * np.uint32(go.PRIME)
        values = np.where(place < lengths, then, values)
    return values.astype(np.uint64)


def _murmur(rows: Bytes, lengths: Bounds) -> Hashes:
    factor = np.uint64(cpp.FACTOR)
    words = rows.view("<u8").astype(np.uint64, copy=False)
    values = np.uint64(cpp.SEED) ^ (lengths.astype(np.uint64) * factor)
    whole, ends = lengths // cpp.WORD, -(-lengths // cpp.WORD)
    for place in range(ends.max(initial=0)):
        word = words[:, place]
        mixed = np.where(place < whole, _mixed(word * factor) * factor, word)
        values = np.where(place < ends, (values ^ mixed) * factor, values)
    return _mixed(_mixed(values) * factor)


def _mixed(values: Hashes) -> Hashes:
    return values ^ (values >> np.uint64(cpp.SHIFT))


def consistent(numbers: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Guava's consistentHash of each number."""
    places = np.zeros(len(numbers), np.int64)
    rows = np.arange(len(numbers))
    states = numbers.astype(np.uint64)
    while len(rows):
        states = states * np.uint64(proxy.MULTIPLIER) + np.uint64(1)
        drawn = (states >> np.uint64(proxy.HIGH_BITS)).astype(np.int64) + 1
        following = (places[rows] + 1) / (drawn / (1 << 31))
        goes_on = (drawn <= proxy.MOST) & (following < buckets)
        rows, states = rows[goes_on], states[goes_on]
        places[rows] = following[goes_on].astype(np.int64)
    return places
