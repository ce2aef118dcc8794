"""How many messages may begin now, where there is a limit of so many a second."""

from __future__ import annotations

from math import floor, inf

AT_ONCE = 0.1  # seconds whose messages may begin together
_ROUNDING = 1e-9


class Rate:
    """A bucket of permits, which fills at the rate. Not thread-safe.

    In any stretch of t seconds at most `room + t * per_second` messages begin.

    Args:
        per_second: messages, above 0.

    Attributes:
        interval: seconds in which one permit comes.
        room: permits that may gather: those of a tenth of a second, and one at least.
    """

    def __init__(self, per_second: float) -> None:
        self.interval = 1 / per_second
        self.room = max(1.0, per_second * AT_ONCE)
        self._paid_at = -inf  # when the last permit taken has come in

    def available(self, now: float) -> int:
        """How many messages may begin (now: seconds)."""
        owed = max(0.0, self._paid_at - now) / self.interval
        return max(0, floor(self.room - owed + _ROUNDING))

    def take(self, count: int, now: float) -> None:
        """Take permits, also if there are not as many: what comes next waits for longer."""
        self._paid_at = max(self._paid_at, now) + count * self.interval

    def give_back(self, count: int) -> None:
        """Return permits that nobody used."""
        self._paid_at -= count * self.interval

    def wait(self, now: float) -> float:
        """Seconds until one message may begin."""
        return max(0.0, self._paid_at - (self.room - 1) * self.interval - now)
