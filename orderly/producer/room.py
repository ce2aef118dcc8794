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
        lock = threading.Lock()
        self._space = threading.Condition(lock)
        self._nobody = threading.Condition(lock)

    def enter(self, timeout: float) -> bool:
        """Come in; waits while it is full. False if that lasts longer than `timeout` seconds."""
        with self._space:
            if not self._space.wait_for(lambda: self._inside < self._limit, timeout):
                return False
            self._inside += 1
            return True

    def enter_anyway(self) -> None:
        """Come in even if it is full: for callers who must not wait."""
        with self._space:
            self._inside += 1

    def leave(self, _future: object = None) -> None:
        """Go out; may be given to `Future.add_done_callback`."""
        with self._space:
            self._inside -= 1
            if self._inside < self._limit:
                self._space.notify()
            if self._inside == 0:
                self._nobody.notify_all()

    def wait_empty(self, timeout: float | None) -> bool:
        """Wait until nobody is inside; False if `timeout` seconds pass before."""
        with self._nobody:
            return self._nobody.wait_for(lambda: self._inside == 0, timeout)
