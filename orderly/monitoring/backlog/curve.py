"""When a message was stored, from how a queue grew: its end at several moments, and between them.

Between two points the queue is taken to have grown evenly. Never beyond them: a message older than
the first point has an unknown age, not a guessed one (kafka-lag-exporter extrapolates, and reports
years for a group that starts over).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right

POINTS = 60
_HALF = 0.5  # the end M at a moment: message M - 1 was there, M was not; so M - 0.5 came just then


class Curve:
    """The end of one queue over time. Keeps the ends of level stretches only.

    Not thread-safe. A queue that got shorter (re-created) begins anew.
    """

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._ends = array("q")

    def note(self, at: float, end: int) -> None:
        """The offset the next message gets, as of now."""
        times, ends = self._times, self._ends
        if ends and end < ends[-1]:
            del times[:], ends[:]
        if len(ends) > 1 and ends[-1] == end == ends[-2]:
            times[-1] = at
            return
        times.append(at)
        ends.append(end)
        if len(ends) > POINTS:
            del times[0], ends[0]

    def stored_at(self, offset: int, known: int, known_at: float) -> float | None:
        """When a message was stored; None: before the first point, or not yet.

        Args:
            offset: the message's.
            known: an older message whose time is known, or -1: so there is one more point.
            known_at: its time.
        """
        times, ends = self._times, self._ends
        after = bisect_right(ends, offset)
        if after == len(ends):
            return None
        if after:
            start, start_at = ends[after - 1] - _HALF, times[after - 1]
        elif 0 <= known <= offset:
            start, start_at = known, min(known_at, times[0])
        else:
            return None
        share = (offset - start) / (ends[after] - _HALF - start) if offset != start else 0.0
        return start_at + share * (times[after] - start_at)
