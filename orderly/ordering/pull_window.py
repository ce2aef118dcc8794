"""When a queue is pulled: by what is cached of it, and how far it is consumed ahead."""

from __future__ import annotations

from enum import Enum, StrEnum

from orderly.config import ConsumerConfig
from orderly.ordering.lanes import Lanes

# --- a topic's limits, split over its queues ------------------------------------------------------


def queue_limits(config: ConsumerConfig, queues: int) -> tuple[int, int]:
    """Return (messages, bytes) a queue may cache while `queues` of its topic are held.

    A limit for the topic replaces the one per queue (Java: RebalancePushImpl.messageQueueChanged);
    each queue gets at least 1.
    """
    return (
        _split(config.pull_threshold, config.pull_threshold_topic, queues),
        _split(config.pull_threshold_bytes, config.pull_threshold_topic_bytes, queues),
    )


def _split(per_queue: int, of_topic: int | None, queues: int) -> int:
    return per_queue if of_topic is None else max(1, of_topic // max(1, queues))


# --- when to pull ---------------------------------------------------------------------------------


MAX_DEFERRED = 100_000  # messages known by offset only: a state record holds ten times as many
MAX_KEYS = 20_000  # with something unfinished: one that waits without a body takes about 1.3 KB
MAX_PAUSED = (
    100_000  # unfinished messages of paused keys, beside these: they are nobody else's room
)


class Limit(StrEnum):
    """Why nothing more of a queue is pulled, although its cache has room."""

    SPAN = "it is max_span offsets ahead of its lowest unfinished message"
    KEYS = f"{MAX_KEYS:,} keys have unfinished messages"
    KEY_BYTES = "the keys with unfinished messages take more memory than pull_threshold_bytes"
    OFFSETS = f"{MAX_DEFERRED:,} messages wait of which only the offset is kept"
    PAUSED = f"{MAX_PAUSED:,} unfinished messages are of keys that the program paused"


class PullGate(Enum):
    """Whether to pull now; what is not OPEN says why."""

    OPEN = "pull"
    DROPPED = "the queue is being given up"
    NOT_LOCKED = "the lease ran out"
    PAUSED = "paused by the program"
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
        self.throttled = self._messages.crowded() or self.limit(span) is not None
        return self.throttled

    def reopens(self, span: int) -> bool:
        """True once one that was full has been worked down to half.

        The less of it can move, the earlier: what a manual commit keeps in hand, and what waits
        after a failure, must not stop the rest.
        """
        if not self.throttled:
            return False
        share = 1 / (1 + self._messages.moving)
        return not self._messages.crowded(share) and self.limit(span, share) is None

    def limit(self, span: int, share: float = 1.0) -> Limit | None:
        """What the pull has reached that it may leave unfinished; None: it may go on.

        Args:
            span: offsets from the lowest unfinished message to the next pull.
            share: of each limit.
        """
        if self._max_span is None:
            return None
        held = self._messages
        if span > self._max_span * share:
            return Limit.SPAN
        if len(held) - held.paused > MAX_KEYS * share:
            return Limit.KEYS
        if held.keys_too_long(share):
            return Limit.KEY_BYTES
        if held.deferred - held.paused_deferred > MAX_DEFERRED * share:
            return Limit.OFFSETS
        return Limit.PAUSED if held.paused_messages > MAX_PAUSED else None  # not worked off here

    @property
    def stuck(self) -> bool:
        """True if all that may be cached is in hand, uncommitted: only a commit helps."""
        held = self._messages
        waits = held.suspended or held.paced or held.paused
        nothing_comes = held.pending == 0 and not held.running and not waits
        return nothing_comes and held.crowded()
