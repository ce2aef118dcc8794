"""Which queue each key of a column goes to: the selectors of `orderly.selectors`, for columns.

Every selector that looks at a key turns it into a number, and all but the proxy's take that
modulo the number of queues. So a column's numbers are worked out once, and serve any number of
queues:

    numbers = NUMBERS[selector](distinct_keys)
    of_8, of_12 = PLACES[selector](numbers, 8), PLACES[selector](numbers, 12)

SingleQueue needs no column, and RandomQueue is RoundRobin without its evenness. Hashes of other
clients and the proxy's choice of a bucket are worked out in numpy; they are the same numbers as
`orderly.selectors.keyed` gives for a key. Pure: numpy and pyarrow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from orderly.errors import ConfigError
from orderly.selectors import keyed

Bytes = npt.NDArray[np.uint8]
Bounds = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_LONG_KEY = 256  # bytes; longer keys are rare and hashed one by one, or all rows would be as wide


def fnv1a(data: Bytes, bounds: Bounds) -> Hashes:
    """FNV-1a, 32 bits, of each text; all texts lie in `data`, one ends where the next begins."""
    return _hash_each(data, bounds, _fnv1a, keyed.fnv1a)


def murmur(data: Bytes, bounds: Bounds) -> Hashes:
    """libstdc++'s std::hash of each text, 64 bits; arguments as of `fnv1a`."""
    return _hash_each(data, bounds, _murmur, keyed.murmur)


def _hash_each(
    data: Bytes,
    bounds: Bounds,
    of_rows: Callable[[Bytes, Bounds], Hashes],
    of_one: Callable[[bytes], int],
) -> Hashes:
    lengths = np.diff(bounds)
    short = lengths <= _LONG_KEY
    found = np.empty(len(lengths), np.uint64)
    found[short] = of_rows(_padded_rows(data, lengths, short), lengths[short])
    for row in np.flatnonzero(~short):
        found[row] = of_one(data[bounds[row] : bounds[row + 1]].tobytes())
    return found


def _padded_rows(data: Bytes, lengths: Bounds, short: npt.NDArray[np.bool_]) -> Bytes:
    """The short texts, one a row, filled up with zeros to whole words."""
    own = lengths[short]
    width = -(-max(own.max(initial=0), 1) // keyed.WORD) * keyed.WORD
    rows = np.zeros((len(own), width), np.uint8)
    rows[np.arange(width) < own[:, None]] = data[np.repeat(short, lengths)]
    return rows


def _fnv1a(rows: Bytes, lengths: Bounds) -> Hashes:
    values = np.full(len(rows), keyed.BASIS, np.uint32)
    for place in range(lengths.max(initial=0)):
        then = (values ^ rows[:, place]) * np.uint32(keyed.PRIME)
        values = np.where(place < lengths, then, values)
    return values.astype(np.uint64)


def _murmur(rows: Bytes, lengths: Bounds) -> Hashes:
    factor = np.uint64(keyed.FACTOR)
    words = rows.view("<u8").astype(np.uint64, copy=False)
    values = np.uint64(keyed.SEED) ^ (lengths.astype(np.uint64) * factor)
    whole, ends = lengths // keyed.WORD, -(-lengths // keyed.WORD)
    for place in range(ends.max(initial=0)):
        word = words[:, place]
        mixed = np.where(place < whole, _mixed(word * factor) * factor, word)
        values = np.where(place < ends, (values ^ mixed) * factor, values)
    return _mixed(_mixed(values) * factor)


def _mixed(values: Hashes) -> Hashes:
    return values ^ (values >> np.uint64(keyed.SHIFT))


def consistent(numbers: npt.NDArray[np.int64], buckets: int) -> npt.NDArray[np.int64]:
    """Guava's consistentHash of each number."""
    places = np.zeros(len(numbers), np.int64)
    rows = np.arange(len(numbers))
    states = numbers.astype(np.uint64)
    while len(rows):
        states = states * np.uint64(keyed.MULTIPLIER) + np.uint64(1)
        drawn = (states >> np.uint64(keyed.HIGH_BITS)).astype(np.int64) + 1
        following = (places[rows] + 1) / (drawn / (1 << 31))
        goes_on = (drawn <= keyed.MOST) & (following < buckets)
        rows, states = rows[goes_on], states[goes_on]
        places[rows] = following[goes_on].astype(np.int64)
    return places


# --- keys of a column -----------------------------------------------------------------------------


Numbers = npt.NDArray[np.int64]
Data = npt.NDArray[np.uint8]

_BLOCK = 32768  # keys worked on at once: tables of powers are as long as their texts
_WORD = 1 << 32
_JAVA = 31  # String.hashCode: h = 31 h + unit, modulo 2^32
_INVERSE = pow(_JAVA, -1, _WORD)  # 31 is odd, so it has one


def hash_numbers(keys: pa.Array) -> Numbers:
    """|String.hashCode| of each key: what `hash_mod` takes modulo the number of queues.

    Give distinct keys (`dictionary_encode`) where keys repeat.

    Args:
        keys: strings, or integers, which are hashed as their decimal text; no nulls.

    Raises:
        ConfigError: keys of another type, a null, or text that is not UTF-8.
    """
    return np.abs(_signed_numbers(keys, "hash_mod"))


def proxy_numbers(keys: pa.Array) -> Numbers:
    """String.hashCode of each key, with its sign: what `proxy_hash` spreads over the queues.

    Raises:
        ConfigError: as `hash_numbers`.
    """
    return _signed_numbers(keys, "proxy_hash")


def cpp_numbers(keys: pa.Array) -> Numbers:
    """libstdc++'s hash of each key: what `cpp_hash_mod` takes modulo the number of queues.

    Raises:
        ConfigError: as `hash_numbers`; text is taken as it lies.
    """
    return _by_block(_texts(keys, "cpp_hash_mod"), lambda *it: murmur(*it[:2]))


def go_numbers(keys: pa.Array) -> Numbers:
    """FNV-1a of each key: what `go_hash_mod` takes modulo the number of queues.

    Raises:
        ConfigError: as `cpp_numbers`.
    """
    return _by_block(_texts(keys, "go_hash_mod"), lambda *it: fnv1a(*it[:2]))


def numeric_numbers(keys: pa.Array) -> Numbers:
    """Each key as it is: what `numeric_mod` takes modulo the number of queues.

    Raises:
        ConfigError: keys that are not integers, a null, or a number beyond 64 bits.
    """
    _refuse_nulls(keys)
    if not pa.types.is_integer(keys.type):
        raise ConfigError(
            f"numeric_mod needs a column of integers as key, not {keys.type}; use hash_mod for text"
        )
    try:
        return np.asarray(keys.cast(pa.int64()), dtype=np.int64)
    except pa.ArrowInvalid as error:
        raise ConfigError(f"numeric_mod: {error}; use hash_mod") from error


NUMBERS: dict[str, Callable[[pa.Array], Numbers]] = {
    "hash_mod": hash_numbers,
    "numeric_mod": numeric_numbers,
    "proxy_hash": proxy_numbers,
    "cpp_hash_mod": cpp_numbers,
    "go_hash_mod": go_numbers,
}
"""By name: the selectors that look at a key, as functions from keys to numbers of 64 bits."""


def places(numbers: Numbers, queues: int) -> Numbers:
    """The place of each number's queue in the topic's list of queues, from 0.

    Args:
        numbers: by one of `NUMBERS`; or `round_robin`'s.
        queues: how many there are, 1 or more.
    """
    return (numbers % queues).astype(np.int64, copy=False)  # of C++ they are unsigned


PLACES: dict[str, Callable[[Numbers, int], Numbers]] = {
    name: consistent if name == "proxy_hash" else places for name in NUMBERS
}
"""By name: from numbers and how many queues to places, in the order the selector counts them in."""


def round_robin(rows: int, first: int = 0) -> Numbers:
    """Numbers for rows without keys: each to the next queue.

    Args:
        rows: how many.
        first: how many had their turn before.
    """
    return np.arange(first, first + rows, dtype=np.int64)


def _signed_numbers(keys: pa.Array, selector: str) -> Numbers:
    def hashed(data: Data, bounds: Bounds, first: int) -> Numbers:
        return _hash_codes(*_utf16(data, bounds, first)).astype(np.int64)

    return _by_block(_texts(keys, selector), hashed)


def _by_block(texts: pa.Array, hashed: Callable[[Data, Bounds, int], npt.NDArray[Any]]) -> Numbers:
    """The numbers of all texts; `hashed` gets bytes, bounds, and the number of the first row."""
    blocks = [
        hashed(*_utf8(texts.slice(start, _BLOCK)), start)
        for start in range(0, max(1, len(texts)), _BLOCK)
    ]
    return np.concatenate(blocks)


def _texts(keys: pa.Array, selector: str) -> pa.Array:
    """The keys as a string array."""
    _refuse_nulls(keys)
    kind = keys.type
    if pa.types.is_integer(kind) or pa.types.is_large_string(kind):
        return keys.cast(pa.string())
    if not pa.types.is_string(kind):
        raise ConfigError(f"{selector} needs a column of strings or integers as key, not {kind}")
    return keys


def _refuse_nulls(keys: pa.Array) -> None:
    if keys.null_count:
        row = pc.index(keys.is_null(), True).as_py()
        raise ConfigError(f"the key of row {row} is null: without a key it has no queue")


def _utf8(texts: pa.Array) -> tuple[Data, Bounds]:
    """The bytes of all texts, one after the other, and where each begins and ends."""
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    if not len(texts) or offsets[0] == offsets[-1]:
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    data = np.frombuffer(texts.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return data, (offsets - offsets[0]).astype(np.int64)


def _utf16(data: Data, bounds: Bounds, first: int) -> tuple[npt.NDArray[np.uint32], Bounds]:
    """All texts as UTF-16 code units, one after the other, and where each begins and ends.

    `first` is the number of the first one's row, for errors.
    """
    if data.max(initial=0) < 0x80:
        return data.astype(np.uint32), bounds
    # Units by byte of UTF-8: none for those that continue a character, two (a pair of surrogates)
    # for the first of four.
    widths = (data < 0x80).astype(np.int64) + (data >= 0xC0) + (data >= 0xF0)
    before = np.concatenate(([0], np.cumsum(widths)))
    try:
        units = data.tobytes().decode().encode("utf-16-le")
    except UnicodeDecodeError as error:
        row = first + int(np.searchsorted(bounds, error.start, side="right")) - 1
        raise ConfigError(f"the key of row {row} is not UTF-8: {error.reason}") from error
    return np.frombuffer(units, "<u2").astype(np.uint32), before[bounds]


def _hash_codes(
    units: npt.NDArray[np.uint32], bounds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """Java's hash of each text, without a loop over characters.

    The hash of units a..b is the sum of u[i] 31^(b-i). With sums S of u[i] 31^-i over the whole
    buffer that is 31^b (S[b] - S[a]): two looks at one running sum, for texts of any length.
    """
    bits = len(units).bit_length()
    inverse, power = _powers(_INVERSE, bits), _powers(_JAVA, bits)
    sums = np.zeros(len(units) + 1, np.uint32)
    np.cumsum(units * inverse[: len(units)], dtype=np.uint32, out=sums[1:])
    begin, end = bounds[:-1], bounds[1:]
    codes: npt.NDArray[np.uint32] = power[np.maximum(end - 1, 0)] * (sums[end] - sums[begin])
    return codes.view(np.int32)


@lru_cache(maxsize=8)
def _powers(base: int, bits: int) -> npt.NDArray[np.uint32]:
    """base^0, base^1 and so on, 2^bits of them, modulo 2^32."""
    factors = np.full(1 << bits, base, np.uint32)
    factors[0] = 1
    return np.cumprod(factors, dtype=np.uint32)
