"""How many keys that have not failed are tried while most of the others fail.

A database dies. Each order is a key of its own, so the messages that come are of keys that have
not failed. They might all fail, or one sender's may, and all others would succeed. Only a try
tells. So they are tried, but the longer nothing succeeds, the fewer a second.
"""

from __future__ import annotations

from math import inf

MOST = 1000.0  # keys a second when it begins: as fast as failures are counted and logged
HALVED = 10.0  # seconds without a success in which the rate halves
LEAST = 1.0  # keys a second, however long it lasts
_AT_ONCE = 0.1  # seconds whose keys may begin together
_HALVINGS = 60.0  # beyond, the rate is the least one long before


class Throttle:
    """Not thread-safe. Times are seconds and do not fall.

    Args:
        longest_wait: seconds after which a key that is held back asks again.

    Attributes:
        since: since when it is on; None: it is off, and holds nobody back.
        off_since: when a success last turned it off.
        holds: whether it has held a key back since it is on.
    """

    __slots__ = ("_free_at", "_line", "_longest_wait", "holds", "off_since", "since")

    def __init__(self, longest_wait: float) -> None:
        self.since: float | None = None
        self.off_since = -inf
        self.holds = False
        self._longest_wait = longest_wait
        self._free_at = self._line = -inf

    def turn_on(self, now: float) -> None:
        """Most keys fail. Nothing changes if it is on."""
        if self.since is None:
            self.since = now

    def turn_off(self, now: float) -> None:
        """A message succeeded."""
        if self.since is not None:
            self.since, self.off_since, self.holds = None, now, False
            self._free_at = self._line = -inf

    def admit(self, now: float) -> float:
        """Ask before a key that has not failed is tried.

        Returns:
            0.0: try it. Otherwise the seconds after which to ask again: a place in a line that
            moves with half the rate, so that keys which come now have the other half.
        """
        if self.since is None:
            return 0.0
        interval = self._interval(now)
        if self._free_at <= now + _AT_ONCE:
            self._free_at = max(self._free_at, now) + interval
            return 0.0
        self.holds = True
        self._line = max(self._line, now) + 2 * interval
        return min(self._line - now, self._longest_wait)

    def untried(self, now: float) -> None:
        """A key that was let through was not tried, or its try says nothing of the others."""
        if self.since is not None:
            self._free_at -= self._interval(now)

    def _interval(self, now: float) -> float:
        """Seconds from one key to the next."""
        halvings = min((now - (now if self.since is None else self.since)) / HALVED, _HALVINGS)
        return min(float(2.0**halvings) / MOST, 1 / LEAST)
