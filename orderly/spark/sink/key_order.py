"""Whether the rows of each key come in their order. Pure: numpy.

Rows of several keys may alternate in any way. What is remembered is one number for each key of
the partition.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fall:
    """A row that comes too late.

    Attributes:
        row: in the rows given.
        before: the number of the row of its key before it.
        number: its own, not above `before`.
    """

    row: int
    before: int
    number: int


class KeyOrder:
    """The order of the keys of one partition. Not thread-safe.

    Args:
        unique: whether a key's number may not even repeat.
    """

    def __init__(self, *, unique: bool) -> None:
        self._falls = np.less_equal if unique else np.less
        self._last: dict[object, int] = {}

    @property
    def keys(self) -> list[object]:
        """All keys seen."""
        return list(self._last)

    def check(self, keys: list[object], codes: Column, numbers: Column) -> Fall | None:
        """Take in the next rows.

        Args:
            keys: distinct keys; each is that of one row at least.
            codes: of each row, the index of its key in `keys`.
            numbers: of each row, its place in order.

        Returns:
            The first row that falls behind an earlier one of its key; None: there is none.
        """
        by_key = np.argsort(codes, kind="stable")
        numbers = numbers[by_key]
        begins = np.flatnonzero(np.diff(codes[by_key], prepend=-1))
        known = [self._last.get(key) for key in keys]
        before = np.concatenate((numbers[:1], numbers[:-1]))
        before[begins] = [0 if number is None else number for number in known]
        has_before = np.ones(len(numbers), bool)
        has_before[begins] = [number is not None for number in known]
        wrong = np.flatnonzero(self._falls(numbers, before) & has_before)
        if wrong.size:
            at = wrong[np.argmin(by_key[wrong])]
            return Fall(int(by_key[at]), int(before[at]), int(numbers[at]))
        self._last.update(zip(keys, numbers[np.append(begins[1:], 0) - 1].tolist(), strict=True))
        return None
