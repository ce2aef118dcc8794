"""What was measured of one queue, or of a whole group, over time. Pure.

Two samples belong together if no more than three intervals lie between them; beyond that nobody
knows what was, and nothing is said of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

MISSED = 3.0  # intervals without a sample that make a gap: one or two scans may fail


@dataclass(frozen=True, slots=True)
class Series:
    """Samples in columns, sorted by time; nan is not known.

    Attributes:
        at: seconds since the epoch.
        interval: seconds planned until the next sample.
        backlog: messages; of a group that was measured in part, what is known of it.
        head_age: seconds since the oldest of them was stored; in part, as `backlog`.
        committed, maximum: offsets, or sums of them.
        counted: queues in these sums.
        whole: the backlog is all that there is.
        aged: the age is that of all messages.
    """

    at: Floats
    interval: Floats
    backlog: Floats
    head_age: Floats
    committed: Floats
    maximum: Floats
    counted: Floats
    whole: Bools
    aged: Bools

    def only(self, chosen: Bools) -> Series:
        """The chosen samples."""
        return Series(
            self.at[chosen],
            self.interval[chosen],
            self.backlog[chosen],
            self.head_age[chosen],
            self.committed[chosen],
            self.maximum[chosen],
            self.counted[chosen],
            self.whole[chosen],
            self.aged[chosen],
        )

    def measured(self) -> Series:
        """The samples with a backlog that is known as a whole."""
        return self.only(self.whole & ~np.isnan(self.backlog))

    def joined(self) -> Bools:
        """By sample but the last: whether the next one belongs together with it."""
        longest = MISSED * np.maximum(self.interval[:-1], self.interval[1:])
        return np.diff(self.at) <= longest


def runs(chosen: Bools, joined: Bools) -> list[tuple[int, int]]:
    """The first and last place of each stretch of chosen samples that belong together.

    Args:
        chosen: by sample.
        joined: by sample but the last.
    """
    if not chosen.any():
        return []
    goes_on = chosen[:-1] & chosen[1:] & joined
    begins = chosen & ~np.concatenate(([False], goes_on))
    ends = chosen & ~np.concatenate((goes_on, [False]))
    return list(zip(np.flatnonzero(begins).tolist(), np.flatnonzero(ends).tolist(), strict=True))
