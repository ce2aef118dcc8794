"""Holds queues back while a consumer handles as many messages a second as it may (`max_rate`).

No thread waits: a run that gets no permit ends, and its queue waits in line until a timer lets it
go on. Who came first goes on first, so one busy queue does not take the permits of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from orderly.clock import now
from orderly.consumer.session import HeldQueue
from orderly.errors import LifecycleError
from orderly.ordering.rate import Rate

_SHORTEST = 0.001  # seconds between two looks at the line


class RateGate:
    """Thread-safe.

    Args:
        per_second: messages.
        after: runs a function in so many seconds.
        ready: called when a queue may have something to hand out again.
    """

    def __init__(
        self,
        per_second: float,
        after: Callable[[float, Callable[[], object]], object],
        ready: Callable[[HeldQueue], None],
    ) -> None:
        self._rate = Rate(per_second)
        self._after = after
        self._ready = ready
        self._lock = threading.Lock()
        self._line: dict[HeldQueue, None] = {}  # in the order in which they came
        self._called: set[HeldQueue] = set()  # whose turn it is, and who took nothing yet
        self._armed = False

    def grant(self, held: HeldQueue, most: int) -> int:
        """Return for how many messages of a queue there are permits, and take them.

        Args:
            held: the queue.
            most: messages it could do with, 1 or more.

        Returns:
            0 to `most`. None of them: the caller ends its run, then has the queue `stand_in_line`.
        """
        with self._lock:
            overtakes = self._line and held not in self._called
            granted = 0 if overtakes else min(most, self._rate.available(now()))
            if granted:
                self._called.discard(held)
                self._rate.take(granted, now())
                held.owned.held_until = None
            return granted

    def settle(self, unused: int) -> None:
        """Return permits that were granted and not used."""
        if unused:
            with self._lock:
                self._rate.give_back(unused)

    def spend(self, count: int) -> None:
        """Take permits for messages that begin in any case: a parked key's, which are released."""
        with self._lock:
            self._rate.take(count, now())

    def wait(self) -> float:
        """Seconds until one more message may begin."""
        with self._lock:
            return self._rate.wait(now())

    def holds(self, held: HeldQueue) -> bool:
        """Whether a queue waits in line; needs no lock."""
        return held in self._line

    def stand_in_line(self, held: HeldQueue) -> None:
        """Have a queue go on when its turn comes."""
        with self._lock:
            self._called.discard(held)
            self._line.setdefault(held)
            wait = max(self._rate.wait(now()), _SHORTEST)
            held.owned.held_until = now() + wait
            arm, self._armed = not self._armed, True
        if arm:
            self._arm(wait)

    def _arm(self, seconds: float) -> None:
        with suppress(LifecycleError):  # the client is closed: nothing is handled any more
            self._after(seconds, self._call_next)

    def _call_next(self) -> None:
        """Let as many queues go on as there are permits."""
        with self._lock:
            self._called = {held for held in self._called if held.owned.dropped is None}
            count = max(1, self._rate.available(now()))
            called = list(self._line)[:count]
            for held in called:
                del self._line[held]
            self._called.update(called)
            self._armed = more = bool(self._line)
            wait = max(self._rate.wait(now()), self._rate.interval, _SHORTEST)
        if more:
            self._arm(wait)
        for held in called:
            self._ready(held)
