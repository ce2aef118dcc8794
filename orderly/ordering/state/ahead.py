"""What is finished above the committed offset: noted quickly under a lock, worked out without."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.ordering.state.runs import Runs, above, finished_runs, union


@dataclass(frozen=True, slots=True)
class Ahead:
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
