"""Requests of one connection that wait for their reply.

The rule that makes every request complete exactly once: reply, time-out, loss and interruption
all *claim* the entry first, and only the claimant completes it. What completing means is up to
`connection.Connection`.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from orderly.errors import RemotingError
from orderly.protocol.frame import RemotingCommand
from orderly.remoting.schedule import Schedule

OnReply = Callable[[RemotingCommand | RemotingError], None]


@dataclass(slots=True)
class PendingCall:
    """One request in flight; `deadline` is on the monotonic clock."""

    code: int
    timeout: float
    deadline: float
    on_reply: OnReply


class PendingCalls:
    """The table of requests in flight. Thread-safe.

    Args:
        timeouts: where the next sweep is planned: one timer a connection, not one a request.
        on_expired: gets each call whose deadline passed, on the thread of `timeouts`.
    """

    def __init__(self, timeouts: Schedule, on_expired: Callable[[PendingCall], None]) -> None:
        self._timeouts = timeouts
        self._on_expired = on_expired
        self._lock = threading.Lock()
        self._calls: dict[int, PendingCall] = {}
        self._closed = False
        self._sweep_at = math.inf
        self._cancel_sweep: Callable[[], None] = _nothing

    def add(self, request_id: int, call: PendingCall) -> bool:
        """Enter `call`; False after `close`: no reply can come any more."""
        with self._lock:
            if self._closed:
                return False
            self._calls[request_id] = call
            if call.deadline < self._sweep_at:
                self._plan_sweep(call.deadline)
            return True

    def claim(self, request_id: int) -> PendingCall | None:
        """Take the call out in order to complete it; None if somebody else did."""
        with self._lock:
            return self._calls.pop(request_id, None)

    def close(self) -> list[PendingCall]:
        """Claim all calls and refuse new ones."""
        with self._lock:
            self._closed = True
            self._cancel_sweep()
            calls = list(self._calls.values())
            self._calls.clear()
            return calls

    def _plan_sweep(self, deadline: float) -> None:
        self._cancel_sweep()
        self._sweep_at = deadline
        self._cancel_sweep = self._timeouts.after(deadline - time.monotonic(), self._sweep)

    def _sweep(self) -> None:
        for call in self._claim_expired():
            self._on_expired(call)

    def _claim_expired(self) -> list[PendingCall]:
        now = time.monotonic()
        with self._lock:
            late = [number for number, call in self._calls.items() if call.deadline <= now]
            expired = [self._calls.pop(number) for number in late]
            self._sweep_at = math.inf
            if self._calls:
                self._plan_sweep(min(call.deadline for call in self._calls.values()))
            return expired


def _nothing() -> None:
    """No sweep is planned."""
