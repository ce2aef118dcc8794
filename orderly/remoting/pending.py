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
    """One request in flight.

    Attributes:
        deadline: on the monotonic clock.
        attended: its caller waits, and may read the reply itself.
    """

    code: int
    timeout: float
    deadline: float
    on_reply: OnReply
    attended: bool = False


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

    def any(self) -> bool:
        """Whether a request waits for its reply."""
        return bool(self._calls)

    def has(self, request_id: int) -> bool:
        """Whether this request waits for its reply."""
        return request_id in self._calls

    def claim(self, request_id: int) -> PendingCall | None:
        """Take the call out in order to complete it; None if somebody else did."""
        return self._calls.pop(request_id, None)

    def complete(self, request_id: int, complete: Callable[[PendingCall], None]) -> None:
        """Claim the call, if it is there, and complete it on a thread that may be interrupted.

        Then it is put back, for the reader thread to complete it.
        """
        claimed: list[PendingCall | None] = []
        try:
            # In C, as no signal may come between: the call would be claimed by nobody.
            claimed.extend(map(self._calls.pop, (request_id,), (None,)))
            if claimed[0] is not None:
                complete(claimed[0])
        except BaseException:
            if claimed and claimed[0] is not None:
                self.add(request_id, claimed[0])
            raise

    def close(self) -> list[PendingCall]:
        """Claim all calls and refuse new ones."""
        with self._lock:
            self._closed = True
            self._cancel_sweep()
            return self._claim_all(list(self._calls))

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
            calls = self._calls.copy()
            late = [number for number, call in calls.items() if call.deadline <= now]
            expired = self._claim_all(late)
            self._sweep_at = math.inf
            left = [call.deadline for call in calls.values() if call.deadline > now]
            if left:
                self._plan_sweep(min(left))
            return expired

    def _claim_all(self, numbers: list[int]) -> list[PendingCall]:
        return [call for number in numbers if (call := self.claim(number)) is not None]


def _nothing() -> None:
    """No sweep is planned."""
