"""Which part of the keys seen lately was parked: after a bad deploy it is nearly all of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from orderly.ordering.latest import put_latest

WINDOW = 300.0  # seconds
FREE = 5  # keys that may be parked whatever was seen
_MOST = 10_000  # keys remembered; with more in the window the limit is a little stricter


class KeyRatio:
    """Counts the keys of one member. Not thread-safe.

    Args:
        ratio: the part of the keys seen in the last five minutes that may be newly parked.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._seen: OrderedDict[Hashable, float] = OrderedDict()  # in the order of their times
        self._parked: OrderedDict[Hashable, float] = OrderedDict()

    def saw(self, key: Hashable, now: float) -> None:
        """Note that a message of `key` was handled, at `now` (seconds)."""
        put_latest(self._seen, key, now, _MOST)

    def refuses(self, key: Hashable, now: float) -> str | None:
        """Return why one more key must not be parked now, for the log, or None: it may."""
        _forget(self._seen, now)
        _forget(self._parked, now)
        parked = len(self._parked) - (key in self._parked)
        seen = len(self._seen) + (key not in self._seen)
        if parked < FREE or parked + 1 <= self._ratio * seen:
            return None
        return (
            f"{parked} of {seen} keys of the last {WINDOW / 60:g} minutes are parked, at most"
            f" {self._ratio:g} of them may be: that is a fault of the handler, not of the messages"
        )

    def parks(self, key: Hashable, now: float) -> None:
        """Note that `key` was parked."""
        put_latest(self._parked, key, now, _MOST)


def _forget(times: OrderedDict[Hashable, float], now: float) -> None:
    """Drop what is older than the window; the oldest are first."""
    while times and next(iter(times.values())) <= now - WINDOW:
        times.popitem(last=False)
