"""The lowest of many numbers of which each changes on its own."""

from __future__ import annotations

from heapq import heappop, heappush, heapreplace

_LEFT_IN = 1000  # numbers of the past that may stay in the heap


class Lowest:
    """Not thread-safe. The numbers are different from each other and not negative."""

    def __init__(self) -> None:
        self._heap: list[int] = []  # with those that no longer count left in it
        self._present: set[int] = set()

    @property
    def value(self) -> int | None:
        """The lowest; None: there is none."""
        while self._heap and self._heap[0] not in self._present:
            heappop(self._heap)
        return self._heap[0] if self._heap else None

    def replace(self, old: int | None, new: int | None) -> None:
        """Put `new` in the place of `old`; None: there is none."""
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
