"""How many keys that have not failed are tried while most of the others fail.

A database dies. Each order is a key of its own, so the messages that come are of keys that have
not failed. They might all fail, or one sender's may, and all others would succeed. Only a try
tells. So each is tried once, but beyond the first ten thousand it is only one a second.
"""

from __future__ import annotations

from math import inf

AT_ONCE = 10_000  # keys: as many as are remembered as failing
EACH = 1.0  # seconds after which one more may be tried; those that nobody used are kept
_EARLY = 0.1  # seconds: who asks so much too early need not come again


class Throttle:
    """Not thread-safe. Times are seconds and do not fall.

    Args:
        longest_wait: seconds after which a key that is held back asks again.

    Attributes:
        since: since when it is on; None: it is off, and holds nobody back.
        off_since: when it was last turned off.
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
        """A message succeeded, or no key fails any more."""
        if self.since is not None:
            self.since, self.off_since, self.holds = None, now, False
            self._free_at = self._line = -inf

    def admit(self, now: float) -> float:
        """Ask before a key that has not failed is tried.

        Returns:
            0.0: try it. Otherwise the seconds after which to ask again: places for every second
            try, so that a key which comes now is not behind all that wait.
        """
        if self.since is None:
            return 0.0
        free_at = max(self._free_at, now - (AT_ONCE - 1) * EACH)
        if free_at <= now + _EARLY:
            self._free_at = free_at + EACH
            return 0.0
        self.holds = True
        wait = min(max(self._line - now, 0.0) + 2 * EACH, self._longest_wait)
        self._line = now + wait
        return wait

    def untried(self) -> None:
        """A key that was let through was not tried, or its try says nothing of the others."""
        self._free_at -= EACH
