"""Times in which this process stood still: they are no evidence that anything else is late.

A container without CPU, a machine that was moved or suspended: when it goes on, everything seems
to have taken long, and the answers may be waiting in the sockets. So whoever asks for how long
something has not happened asks here: only time in which this process was seen to run counts.
"""

from __future__ import annotations

from orderly.clock import now

_KEPT = 64  # the last ones


class Standstills:
    """Noticed by looks that come late. One thread calls `look`; any thread asks.

    Args:
        interval: seconds between two looks.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._looked_at = now()
        self._ended: tuple[tuple[float, float], ...] = ()  # when, and after how many seconds

    def look(self) -> None:
        """Note that the process runs."""
        moment = now()
        late = self._late(moment)
        if late:
            self._ended = (*self._ended[1 - _KEPT :], (moment, late))
        self._looked_at = moment

    def awake_since(self, moment: float) -> float:
        """Seconds since `moment` (seconds, `clock.now`) for which this process was seen to run."""
        at = now()
        lost = sum(late for ended_at, late in self._ended if ended_at > moment)
        return max(0.0, at - moment - lost - self._late(at))

    def _late(self, moment: float) -> float:
        """For how long nobody has looked that should have; a look may be late by one interval."""
        gap = moment - self._looked_at - self._interval
        return gap if gap > self._interval else 0.0
