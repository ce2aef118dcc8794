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
from dataclasses import dataclass
from operator import itemgetter

TICK = 0.5  # seconds between two looks at most, while the process runs
LATE = 0.5  # seconds by which a look is late if the process stood still
_CATCHING_UP = 1.0  # seconds after a standstill that do not count either: what waits is read first
_REMEMBERED = 256  # standstills


@dataclass(frozen=True, slots=True)
class AwakeTime:
    """Finds standstills, by looks at a clock that come regularly while the process runs.

    A look that comes late shows one. Whatever the machine does, awake time goes on, by a tick a
    look at least: where every look is late, deadlines pass later, but they pass.

    Attributes:
        looked_at: when the last look was (seconds).
        standstills: when each of them ended, the seconds that do not count from then on, and the
            awake time at which it stood.
        caught_up: the last time (of awake time) that seconds for it were given.
    """

    looked_at: float
    standstills: tuple[tuple[float, float, float], ...] = ((float("-inf"), 0.0, float("-inf")),)
    caught_up: float = float("-inf")

    def looked(self, now: float) -> AwakeTime:
        """What is known after a look at `now`."""
        passed = now - self.looked_at
        if passed <= TICK + LATE:
            return AwakeTime(max(now, self.looked_at), self.standstills, self.caught_up)
        stood_at = self.looked_at + TICK - self.lost
        lost, caught_up = self.lost + passed - TICK, self.caught_up
        if now - lost >= caught_up + 2 * _CATCHING_UP:  # else time could stand for ever
            lost += _CATCHING_UP
            caught_up = now - lost
        kept = self.standstills[:1] + self.standstills[1:][1 - _REMEMBERED :]
        return AwakeTime(now, (*kept, (now, lost, stood_at)), caught_up)

    @property
    def lost(self) -> float:
        """Seconds that do not count until now."""
        return self.standstills[-1][1]

    def at(self, moment: float) -> float:
        """The awake time at a moment: seconds since no moment in particular.

        Right after a standstill it is up to a second less than right before it.
        """
        place = bisect_right(self.standstills, moment, key=itemgetter(0))
        awake = moment - self.standstills[place - 1][1]
        # What went on before the next look noticed the end of a standstill is in it.
        return min(awake, self.standstills[place][2]) if place < len(self.standstills) else awake
