"""How much of a queue may be cached, and how far it may be consumed ahead: when to pull."""

from __future__ import annotations

from enum import Enum

from orderly.ordering.lanes import Lanes

MAX_DEFERRED = 100_000  # messages known by offset only: what a state record is sure to hold
MAX_KEYS = 20_000  # with something unfinished: one that waits without a body takes about 2.5 KB


class Gate(Enum):
    """Whether to pull now; what is not OPEN says why."""

    OPEN = "pull"
    DROPPED = "the queue is being given up"
    NOT_LOCKED = "the lease ran out"
    PAUSED = "paused by the user"
    BUSY = "a pull is under way"
    FULL = "enough is cached; consuming reopens the gate"


class Window:
    """Not thread-safe.

    Args:
        messages: what is cached of the queue.
        max_span: how far (offsets) the pull may be ahead of the lowest unfinished message; None:
            as far as the cache allows (order by queue finishes nothing ahead).

    Attributes:
        throttled: True from a pull that was not begun until one is.
    """

    def __init__(self, messages: Lanes, max_span: int | None) -> None:
        self._messages = messages
        self._max_span = max_span
        self.throttled = False

    def full(self, span: int) -> bool:
        """True if nothing may be pulled now; notes that.

        Args:
            span: offsets from the lowest unfinished message to the next pull.
        """
        self.throttled = self._messages.crowded() or self._spread(span, 1.0)
        return self.throttled

    def reopens(self, span: int) -> bool:
        """True once one that was full has been worked down to half.

        The less of it can move, the earlier: what a manual commit keeps in hand, and what waits
        after a failure, must not stop the rest.
        """
        if not self.throttled:
            return False
        share = 1 / (1 + self._messages.moving)
        return not self._messages.crowded(share) and not self._spread(span, share)

    def at_span_end(self, span: int) -> bool:
        """True if the pull is as far ahead of the lowest unfinished message as it may be.

        So it is as well where it has left more messages, or keys, unfinished than it may.
        """
        return self._spread(span, 1.0)

    @property
    def stuck(self) -> bool:
        """True if all that may be cached is in hand, uncommitted: only a commit helps."""
        held = self._messages
        nothing_comes = held.pending == 0 and not held.running and not held.suspended
        return nothing_comes and held.crowded()

    def _spread(self, span: int, share: float) -> bool:
        if self._max_span is None:
            return False
        held = self._messages
        many = held.deferred > MAX_DEFERRED * share or len(held) > MAX_KEYS * share
        return many or span > self._max_span * share
