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
        group: the consumer group. Both as at the broker: with the client's namespace.
        attempt: 1 for the first try of the batch's first message; counted in memory, so a
            rebalance or a restart begins anew.
        auto_commit: set it to False before returning to answer with SUCCESS (keep), COMMIT or
            ROLLBACK; it holds for this call only (Java: ConsumeOrderlyContext).
        finished: queue offsets that `done` named.
        untried: queue offsets that `not_tried` named.
        rejected: queue offset -> reason, of what `dead_letter` named.
    """

    message_queue: MessageQueue
    group: str = ""
    attempt: int = 1
    auto_commit: bool = True
    finished: set[int] = field(default_factory=set, init=False)
    untried: set[int] = field(default_factory=set, init=False)
    rejected: dict[int, str] = field(default_factory=dict, init=False)
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

    def done(self, message: ReceivedMessage) -> None:
        """Say that one message of the batch is done, whatever becomes of the others.

        It does not come again if the batch is suspended. Of use with a `batch_size` over 1.
        """
        self.finished.add(message.queue_offset)

    def not_tried(self, message: ReceivedMessage) -> None:
        """Say that one message of the batch was not looked at, because one before it failed.

        It comes again without having an attempt counted against it.
        """
        self.untried.add(message.queue_offset)

    def dead_letter(self, message: ReceivedMessage, reason: str) -> ConsumeResult:
        """Send one message of the batch to the group's dead letters instead of trying it again.

        Returns SUSPEND: `return context.dead_letter(message, "no such account")`. Once the dead
        letter is stored the message counts as done and the queue goes on; until then it waits.
        Answer SUCCESS instead if the rest of the batch is done; under manual commit that rest
        comes again.

        Args:
            message: of this batch.
            reason: for the log; not stored with the message.
        """
        self.rejected[message.queue_offset] = reason
        return ConsumeResult.SUSPEND


Handler = Callable[[Sequence[ReceivedMessage], ConsumeContext], ConsumeResult]
"""A user's function: the batch (1 message unless `batch_size` says more) and its context."""
