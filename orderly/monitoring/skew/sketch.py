"""The most frequent of many things, counted in little memory, with bounds of the error.

Space-saving (Metwally, Agrawal, El Abbadi 2005): a fixed number of counters; something new takes
over the smallest one and inherits its count as a possible error. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar, final

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Count(Generic[K]):
    """How often `key` came: `least` to `most` times."""

    key: K
    least: int
    most: int


@final
class TopCounts(Generic[K]):
    """Counts keys, each addition in constant time; exact up to `capacity` different ones.

    No count is off by more than total / capacity, and whatever came more often than that is
    there. Not thread-safe.

    Args:
        capacity: how many counters; at least 1.
    """

    __slots__ = ("_by_count", "_capacity", "_counts", "_errors", "_floor", "total")

    def __init__(self, capacity: int) -> None:
        self.total = 0
        self._capacity = capacity
        self._counts: dict[K, int] = {}
        self._errors: dict[K, int] = {}
        self._by_count: dict[int, dict[K, None]] = {}  # a dict keeps who came first
        self._floor = 0  # the smallest count

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, key: K) -> bool:
        return key in self._counts

    @property
    def exact(self) -> bool:
        """Whether all counts are exact, and no key is missing."""
        return not self._errors

    def add(self, key: K) -> K | None:
        """Count `key` once more; return the key that had to make room for it, if one had to."""
        self.total += 1
        if key in self._counts:
            self._raise(key)
            return None
        if len(self._counts) < self._capacity:
            self._place(key, 1)
            self._floor = 1
            return None
        smallest = self._by_count[self._floor]
        gone, _ = smallest.popitem()  # the last: to find a dict's first costs more and more
        self._errors.pop(gone, None)
        self._errors[key] = self._floor
        self._counts[key] = self._counts.pop(gone)
        smallest[key] = None
        self._raise(key)
        return gone

    def top(self, number: int) -> tuple[Count[K], ...]:
        """The `number` keys with the largest counts, largest first."""
        found: list[Count[K]] = []
        for count in sorted(self._by_count, reverse=True):
            for key in self._by_count[count]:
                if len(found) == number:
                    return tuple(found)
                found.append(Count(key, count - self._errors.get(key, 0), count))
        return tuple(found)

    def _raise(self, key: K) -> None:
        count = self._counts[key]
        same = self._by_count[count]
        del same[key]
        if not same:
            del self._by_count[count]
            if self._floor == count:
                self._floor += 1  # where the key goes to now
        self._place(key, count + 1)

    def _place(self, key: K, count: int) -> None:
        self._counts[key] = count
        self._by_count.setdefault(count, {})[key] = None
