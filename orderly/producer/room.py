"""Back-pressure: how many messages may be on their way at once."""

from __future__ import annotations

import threading


class Room:
    """Counts the messages a producer has accepted and not yet told the outcome of. Thread-safe.

    Args:
        limit: messages before `enter` waits.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._inside = 0
        self._waiting = 0  # for space
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)
        self._nobody = threading.Condition(self._lock)

    def enter(self, timeout: float) -> bool:
        """Come in; waits while it is full. False if that lasts longer than `timeout` seconds."""
        with self._lock:
            if self._inside >= self._limit and not self._wait_for_space(timeout):
                return False
            self._inside += 1
            return True

    def _wait_for_space(self, timeout: float) -> bool:
        self._waiting += 1
        try:
            return self._space.wait_for(lambda: self._inside < self._limit, timeout)
        finally:
            self._waiting -= 1

    def enter_anyway(self) -> None:
        """Come in even if it is full: for callers who must not wait."""
        with self._lock:
            self._inside += 1

    def leave(self, _future: object = None) -> None:
        """Go out; may be given to `Future.add_done_callback`."""
        with self._lock:
            self._inside -= 1
            if self._waiting and self._inside < self._limit:
                self._space.notify()
            if self._inside == 0:
                self._nobody.notify_all()

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until nobody is inside; False if `timeout` seconds pass before."""
        with self._nobody:
            return self._nobody.wait_for(lambda: self._inside == 0, timeout)
