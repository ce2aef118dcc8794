"""Sorted rows, and what belongs together in them: sums, firsts, and what came before a row. Pure.

The rows of a segment follow each other. What SQL calls a window is here an index for each row: of
the row in question, or -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NONE = -1  # the index of no row


class Segments:
    """Rows in an order, in segments of those with equal codes.

    Args:
        codes: of the rows, in that order; rows belong together where all of them are equal.
    """

    def __init__(self, *codes: Ints) -> None:
        size = len(codes[0])
        begins = np.ones(size, np.bool_)
        if size:
            begins[1:] = np.logical_or.reduce([np.diff(each) != 0 for each in codes])
        self.starts: Ints = np.flatnonzero(begins)
        self.of_row: Ints = np.cumsum(begins) - 1
        self._rows: Ints = np.arange(size)

    def __len__(self) -> int:
        return len(self.starts)

    def sums(self, values: Ints | Bools) -> Ints:
        """The sum of each segment."""
        return self._over(np.add, values.astype(np.int64))

    def least(self, values: Ints) -> Ints:
        """The lowest value of each segment."""
        return self._over(np.minimum, values)

    def greatest(self, values: Ints) -> Ints:
        """The highest value of each segment."""
        return self._over(np.maximum, values)

    def any(self, marked: Bools) -> Bools:
        """Whether a row of the segment is marked."""
        return self.sums(marked) > 0

    def first(self, marked: Bools) -> Ints:
        """The first marked row of each segment."""
        found = self.least(np.where(marked, self._rows, len(self._rows)))
        return np.where(found < len(self._rows), found, NONE)

    def last(self, marked: Bools) -> Ints:
        """The last marked row of each segment."""
        return self.greatest(np.where(marked, self._rows, NONE))

    def before(self, marked: Bools) -> Ints:
        """For each row the last marked one before it in its segment."""
        if not len(self):
            return self._rows
        latest = np.maximum.accumulate(np.where(marked, self._rows, NONE))
        found = np.append(NONE, latest[:-1])
        return np.where(found >= self.starts[self.of_row], found, NONE)

    def highest_before(self, values: Ints) -> Ints:
        """For each row the highest value before it in its segment; the lowest there is for none."""
        lowest = np.iinfo(np.int64).min
        found = np.where(self.before(np.ones(len(values), np.bool_)) >= 0, _shifted(values), lowest)
        step, longest = 1, int(np.bincount(self.of_row).max(initial=0))
        while step < longest:  # each round doubles how far back a row has looked
            same = np.append(np.zeros(step, np.bool_), self.of_row[step:] == self.of_row[:-step])
            further = np.append(np.full(step, lowest), found[:-step])
            found = np.where(same, np.maximum(found, further), found)
            step *= 2
        return found

    def _over(self, operation: np.ufunc, values: Ints) -> Ints:
        found: Ints = operation.reduceat(values, self.starts) if len(self) else values[:0]
        return found


def _shifted(values: Ints) -> Ints:
    return np.append(values[:1], values[:-1])


def codes(column: pa.ChunkedArray) -> Ints:
    """A number for each text, equal where the texts are; -1 for null."""
    coded = column.combine_chunks().dictionary_encode()
    return np.asarray(coded.indices.fill_null(NONE), np.int64)


def ranks(column: pa.ChunkedArray) -> Ints:
    """As `codes`, in the order of the texts."""
    coded = column.combine_chunks().dictionary_encode()
    order = np.argsort(np.asarray(coded.dictionary.to_pylist(), object), kind="stable")
    rank = np.full(len(order) + 1, NONE)  # and at the place NONE that of null
    rank[order] = np.arange(len(order))
    found: Ints = rank[np.asarray(coded.indices.fill_null(NONE), np.int64)]
    return found


def numbers(column: pa.ChunkedArray) -> Ints:
    """A column of numbers, truths or times as 64-bit numbers; 0 for null."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    found: Ints = column.cast(pa.int64()).fill_null(0).to_numpy().astype(np.int64)
    return found


def valid(column: pa.ChunkedArray) -> Bools:
    """Which rows of a column are not null."""
    found: Bools = column.is_valid().to_numpy()
    return found


def grouped(codes: Sequence[Ints]) -> Ints:
    """One number for each row, equal where all codes are; in the order of the codes."""
    found = codes[0]
    for code in codes[1:]:
        low = code - code.min(initial=0)
        found = found * (int(low.max(initial=0)) + 1) + low
    return found
