"""How fast offsets move, and what follows: when a backlog is worked off, when it is deleted."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from operator import sub

Rate = float | None
Rates = Sequence[Rate]

COMMIT_PERIOD = 5.0  # seconds between commits (Java: persistConsumerOffsetInterval)
# One commit more or less at either end: over six periods an error of at most a sixth.
LEAST_FOR_ETA = 6 * COMMIT_PERIOD
# What is worked off within two periods is under way: every busy queue has it, at the steadiest pace
UNDER_WAY = 2 * COMMIT_PERIOD


class Marks:
    """Where offsets were some time ago; two of them take turns, so that one is old enough.

    The base of a rate is the first values seen, later values of between half a window and a
    window ago. Not thread-safe.
    """

    __slots__ = ("_new", "_new_at", "_old", "_old_at")

    def __init__(self, at: float, values: Sequence[int]) -> None:
        self._old = self._new = array("q", values)
        self._old_at = self._new_at = at

    def rates(self, at: float, values: Sequence[int], window: float) -> tuple[Rates, float]:
        """Growth a second of each value since the base, and how long ago that was.

        None where a value is below 0 (not known) on either side, or shrank.
        """
        elapsed = at - self._old_at
        old = self._old
        if elapsed <= 0:
            return [None] * len(values), 0.0
        if min(values) >= 0 and min(old) >= 0:
            grown = list(map(sub, values, old))
            if min(grown) >= 0:
                rates: Rates = array("d", [growth / elapsed for growth in grown])
            else:
                rates = [growth / elapsed if growth >= 0 else None for growth in grown]
        else:
            rates = [
                (now - then) / elapsed if now >= then >= 0 else None
                for now, then in zip(values, old, strict=True)
            ]
        if at - self._new_at >= window / 2:
            self._old, self._old_at = self._new, self._new_at
            self._new, self._new_at = array("q", values), at
        return rates, elapsed


def drain_eta(backlog: int | None, in_rate: Rate, out_rate: Rate, elapsed: float) -> Rate:
    """Seconds until a backlog is worked off at this pace; inf: never; None: not known.

    Messages that are only under way are all done in the time that so many take: what comes in
    behind them does not count.

    Args:
        backlog: messages.
        in_rate: messages a second stored.
        out_rate: messages a second committed.
        elapsed: seconds over which the rates were taken.
    """
    if backlog == 0:
        return 0.0
    if backlog is None or in_rate is None or out_rate is None or elapsed < LEAST_FOR_ETA:
        return None
    if backlog <= out_rate * UNDER_WAY:
        return backlog / out_rate
    return backlog / (out_rate - in_rate) if out_rate > in_rate else math.inf


def retention_eta(backlog: int | None, head_age: float | None, retention: float | None) -> Rate:
    """Seconds until the broker deletes the first message not consumed; inf: there is none.

    Args:
        backlog: messages.
        head_age: seconds since that message was stored.
        retention: seconds for which the broker keeps messages.
    """
    if backlog == 0:
        return math.inf
    if backlog is None or head_age is None or retention is None:
        return None
    return max(0.0, retention - head_age)
