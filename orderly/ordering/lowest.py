"""The lowest of many values of which each changes on its own."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace
from typing import Generic, TypeVar

_LEFT_IN = 1000  # values of the past that may stay in the heap

T = TypeVar("T", int, tuple[float, int])


class Lowest(Generic[T]):
    """Not thread-safe. The values are different from each other."""

    def __init__(self) -> None:
        self._heap: list[T] = []  # with those that no longer count left in it
        self._present: set[T] = set()

    @property
    def value(self) -> T | None:
        """The lowest; None if there is none."""
        while self._heap and self._heap[0] not in self._present:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def replace(self, old: T | None, new: T | None) -> None:
        """Put `new` in the place of `old`; None means no value."""
        if old is not None:
            self._present.discard(old)
        if new is None:
            return
        self._present.add(new)
        if self._heap and self._heap[0] == old:
            heapreplace(self._heap, new)
        else:
            heappush(self._heap, new)
            if len(self._heap) > 2 * len(self._present) + _LEFT_IN:
                self._heap = sorted(self._present)
