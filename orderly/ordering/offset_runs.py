"""Sets of queue offsets as runs: what is finished ahead costs by its gaps, not by its messages.

A value is a tuple of half-open runs `(start, end)`, sorted, not empty, neither overlapping nor
touching, so that equal sets are equal tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

Runs = tuple[tuple[int, int], ...]


def finished_runs(unfinished: Iterable[int], low: int, end: int) -> Runs:
    """Return what is finished within [low, end): everything but `unfinished`.

    Args:
        unfinished: rising offsets; those outside [low, end) do not count.
        low: the first offset that counts.
        end: the first offset that was not pulled yet.
    """
    runs = []
    at = low
    for offset in unfinished:
        if offset < at:
            continue
        if offset >= end:
            break
        if offset > at:
            runs.append((at, offset))
        at = offset + 1
    if at < end:
        runs.append((at, end))
    return tuple(runs)


def contains(runs: Runs, offset: int) -> bool:
    """Whether `offset` is in one of the runs."""
    place = bisect_right(runs, offset, key=_start) - 1
    return place >= 0 and offset < runs[place][1]


def above(runs: Runs, low: int) -> Runs:
    """Return the part of `runs` from `low` on."""
    place = bisect_right(runs, low, key=_start)
    if place and runs[place - 1][1] > low:
        return ((low, runs[place - 1][1]), *runs[place:])
    return runs[place:]


def union(first: Runs, second: Runs) -> Runs:
    """Return what is in either."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(first + second):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


def difference(first: Runs, second: Runs) -> Runs:
    """Return what is in `first` and not in `second`."""
    left = []
    cuts = iter((*second, None))
    cut = next(cuts)
    for run_start, end in first:
        at = run_start
        while cut is not None and cut[1] <= at:
            cut = next(cuts)
        while cut is not None and cut[0] < end:
            if at < cut[0]:
                left.append((at, cut[0]))
            at = cut[1]
            if at >= end:
                break
            cut = next(cuts)
        if at < end:
            left.append((at, end))
    return tuple(left)


def _start(run: tuple[int, int]) -> int:
    return run[0]


# --- what is finished above the committed offset --------------------------------------------------
# Noted quickly under a lock, worked out without.


@dataclass(frozen=True, slots=True)
class ConsumedAhead:
    """How far a queue is consumed at one moment.

    Attributes:
        offset: the lowest unfinished one.
        end: the first one that was not pulled yet.
        unfinished: the offsets between them that are not finished, in any order.
        inherited: what former owners finished; it counts from `end` on.
    """

    offset: int
    end: int
    unfinished: list[int]
    inherited: Runs = ()

    @property
    def finished(self) -> Runs:
        """What is finished above `offset`."""
        seen = finished_runs(sorted(self.unfinished), self.offset, self.end)
        return union(seen, above(self.inherited, self.end)) if self.inherited else seen
