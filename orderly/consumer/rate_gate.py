"""Holds queues back while a consumer handles as many messages a second as it may (`max_rate`).

No thread waits: a run that gets no permit ends, and its queue waits in line until a timer lets it
go on. Who came first goes on first, so one busy queue does not take the permits of the others.
Parked keys that are released wait in a line of their own: every other permit is theirs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

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
        self._released: deque[Callable[[], None]] = deque()  # what calls those with parked keys
        self._queues_turn = False  # and not that of a parked key
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
            overtakes = (self._line or self._released) and held not in self._called
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

    def admit(self, go_on: Callable[[], None]) -> bool:
        """Return whether one message of a parked key may begin now.

        Args:
            go_on: if not, it is called when it may. Its permit is taken by then.
        """
        with self._lock:
            if not self._line and not self._released and self._rate.available(now()):
                self._rate.take(1, now())
                return True
            self._released.append(go_on)
            wait = max(self._rate.wait(now()), _SHORTEST)
            arm, self._armed = not self._armed, True
        if arm:
            self._arm(wait)
        return False

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
        """Let as many of both lines go on as there are permits, one of each in turn."""
        with self._lock:
            self._called = {held for held in self._called if held.owned.dropped is None}
            permits, called = self._rate.available(now()), list[Callable[[], object]]()
            while len(called) < permits and (self._line or self._released):
                called.append(self._next())
            self._armed = more = bool(self._line or self._released)
            wait = max(self._rate.wait(now()), self._rate.interval if called else 0.0, _SHORTEST)
        if more:
            self._arm(wait)
        for go_on in called:
            go_on()

    def _next(self) -> Callable[[], object]:
        """Take the next one out of its line; what is returned lets it go on."""
        if self._released and not (self._queues_turn and self._line):
            self._queues_turn = True
            self._rate.take(1, now())
            return self._released.popleft()
        self._queues_turn = False
        held = next(iter(self._line))
        del self._line[held]
        self._called.add(held)
        return partial(self._ready, held)
