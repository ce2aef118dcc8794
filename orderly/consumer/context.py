"""What a handler is told and what it may set besides its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from orderly.errors import ConfigError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.results import ConsumeResult

MIN_SUSPEND = 0.01
MAX_SUSPEND = 30.0


@dataclass(slots=True)
class ConsumeContext:
    """One call of a handler. Used by that call's thread only.

    Attributes:
        message_queue: the queue the messages came from.
        attempt: 1 for the first try of the batch's first message; counted in memory, so a
            rebalance or a restart begins anew.
        auto_commit: set it to False before returning to answer with SUCCESS (keep), COMMIT or
            ROLLBACK; it holds for this call only (Java: ConsumeOrderlyContext).
    """

    message_queue: MessageQueue
    attempt: int = 1
    auto_commit: bool = True
    _suspend: float | None = field(default=None, init=False)

    @property
    def suspend_seconds(self) -> float | None:
        """What `suspend` chose, or None for the consumer's setting."""
        return self._suspend

    def suspend(self, seconds: float) -> ConsumeResult:
        """Choose how long the queue waits, and return SUSPEND: `return context.suspend(5)`.

        Args:
            seconds: 0.01 to 30, as in Java.

        Raises:
            ConfigError: outside that range.
        """
        if not MIN_SUSPEND <= seconds <= MAX_SUSPEND:
            raise ConfigError(f"suspend takes {MIN_SUSPEND} to {MAX_SUSPEND} s, not {seconds}")
        self._suspend = seconds
        return ConsumeResult.SUSPEND


Handler = Callable[[Sequence[ReceivedMessage], ConsumeContext], ConsumeResult]
"""A user's function: the batch (1 message unless `batch_size` says more) and its context."""
