"""How long the broker's queue lock may be trusted here.

The broker frees a lock 60 s after the last renewal; a client distrusts it after 30 s
(Java: ProcessQueue.REBALANCE_LOCK_MAX_LIVE_TIME). Age counts from the moment the request was
*sent*: the broker renewed later than that, so the error is always on the safe side.
"""

from __future__ import annotations


class Lease:
    """One queue's lock as this client sees it."""

    __slots__ = ("_held", "_renewed_at", "_trust")

    def __init__(self, asked_at: float, trust: float) -> None:
        self._renewed_at = asked_at
        self._trust = trust
        self._held = True

    @property
    def renewed_at(self) -> float:
        """When the last successful renewal was asked for (seconds)."""
        return self._renewed_at

    @property
    def ends_at(self) -> float:
        """Until when nobody else can own the queue, if it is not renewed (seconds)."""
        return self._renewed_at + self._trust

    def valid(self, now: float) -> bool:
        """True while nobody else can own the queue."""
        return self._held and now - self._renewed_at < self._trust

    def renew(self, asked_at: float) -> None:
        """The broker granted what was asked at `asked_at`; a late, older answer changes nothing.

        A lost lease stays lost, and so does one that had run out by then: somebody else may have
        owned the queue in between.
        """
        if asked_at - self._renewed_at >= self._trust:
            self._held = False
        self._renewed_at = max(self._renewed_at, asked_at)

    def lose(self) -> None:
        """The broker no longer counts us as the owner, or the trust ran out."""
        self._held = False
