"""The time in which this process ran: a standstill is no evidence against anybody.

A container without CPU, a virtual machine that is moved, a laptop that sleeps, a SIGSTOP: nothing
here runs for seconds. When it goes on, every deadline is over and nobody had a chance to keep it:
replies wait unread in the sockets, and handlers did not run. So whoever compares a clock with a
deadline in order to accuse somebody (a broker of silence, a handler of hanging, a message of being
late) counts awake time, which stands while the process does.

What must be safe, and accuses nobody, counts all time: a lease, above all. The broker's clock went
on meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

TICK = 0.5  # seconds between two looks at most, while the process runs
LATE = 0.5  # seconds by which a look is late if the process stood still
_CATCHING_UP = 1.0  # seconds after a standstill that do not count either: what waits is read first
_REMEMBERED = 256  # standstills


class AwakeTime:
    """Finds standstills, by looks at a clock that come regularly while the process runs.

    A look that comes late shows one. Whatever the machine does, awake time goes on, by a tick a
    look at least: where every look is late, deadlines pass later, but they pass.

    Args:
        now: seconds.
    """

    def __init__(self, now: float) -> None:
        self._looked_at = now
        # When each standstill ended, and the seconds that do not count from then on.
        self._standstills = [(float("-inf"), 0.0)]
        self._caught_up = float("-inf")  # the last time that seconds for it were given

    def look(self, now: float) -> None:
        """Note that the process runs."""
        passed = now - self._looked_at
        self._looked_at = max(now, self._looked_at)
        if passed <= TICK + LATE:
            return
        lost = self.lost + passed - TICK
        if now - lost >= self._caught_up + 2 * _CATCHING_UP:  # else time could stand for ever
            lost += _CATCHING_UP
            self._caught_up = now - lost
        self._standstills.append((now, lost))
        del self._standstills[1:-_REMEMBERED]

    @property
    def lost(self) -> float:
        """Seconds that do not count until now."""
        return self._standstills[-1][1]

    def at(self, moment: float) -> float:
        """The awake time at a moment: seconds since no moment in particular.

        Right after a standstill it is up to a second less than right before it.
        """
        place = bisect_right(self._standstills, moment, key=itemgetter(0))
        return moment - self._standstills[place - 1][1]
