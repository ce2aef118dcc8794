"""Rows grouped by a code, with numpy: first, last, sum, least and greatest of each group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_LOW_HALF = np.int64(0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows put together by a code: the order that sorts them, and where each code begins."""

    order: Ints
    starts: Ints

    @classmethod
    def by(cls, codes: npt.NDArray[np.integer]) -> Groups:
        """Group rows; those of a code stay in their order.

        Args:
            codes: 0 to 2^31 - 1, at most 2^32 rows.
        """
        # Sorting (code, row) as one number takes a fifth of the time of a stable argsort.
        packed = (codes.astype(np.int64) << 32) | np.arange(len(codes), dtype=np.int64)
        packed.sort()
        code = packed >> 32
        return cls(packed & _LOW_HALF, np.flatnonzero(np.diff(code, prepend=-1)))

    def only(self, rows: Bools) -> Groups:
        """The same groups with some rows; a group that has none of them is left out."""
        kept = rows[self.order]
        group = np.cumsum(self._begins())[kept]
        starts = np.flatnonzero(np.diff(group, prepend=0))
        return Groups(self.order[kept], starts)

    @property
    def firsts(self) -> Ints:
        """The first row of each group."""
        return self.order[self.starts]

    @property
    def lasts(self) -> Ints:
        """The last row of each group."""
        return self.order[self._ends - 1]

    @property
    def _ends(self) -> Ints:
        return np.append(self.starts, len(self.order))[1:]

    def sums(self, counts: Ints) -> Ints:
        """What a column adds up to in each group."""
        if counts.strides == (0,):  # the same number everywhere
            return (self._ends - self.starts) * (counts[0] if len(counts) else 0)
        return np.add.reduceat(counts[self.order], self.starts)

    def inner(self) -> Bools:
        """For each place but the first: whether it belongs to the group of the one before."""
        return ~self._begins()[1:]

    def _begins(self) -> Bools:
        begins = np.zeros(len(self.order), np.bool_)
        begins[self.starts] = True
        return begins

    def count(self, places: Bools) -> Ints:
        """In each group, how many places but the first are marked."""
        marked = np.flatnonzero(places) + 1
        group = np.searchsorted(self.starts, marked, side="right") - 1
        return np.bincount(group, minlength=len(self.starts)).astype(np.int64)

    def least(self, values: Ints) -> Ints:
        """The lowest of each group."""
        return np.minimum.reduceat(values[self.order], self.starts)

    def greatest(self, values: Ints) -> Ints:
        """The highest of each group."""
        return np.maximum.reduceat(values[self.order], self.starts)
