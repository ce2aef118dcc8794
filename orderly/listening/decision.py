"""What becomes of a message, and how the consumer is told."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.listening.delivery import Delivery
from orderly.listening.outcomes import Outcome
from orderly.ordering.context import Failure
from orderly.ordering.outcomes import Answer, DeadLetter, Fail, Park


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a message.

    Attributes:
        outcome: Ack, Skip: it is done. Suspend, Block: it comes again. DeadLetter, Park: as they
            say. Fail: a replay's failure.
        wait: with Suspend and Block, seconds; None with all others.
        untried: the function was not called.
        failure: with Park, what is known of the message.
    """

    outcome: Outcome
    wait: float | None = None
    untried: bool = False
    failure: Failure | None = None

    def apply(self, delivery: Delivery) -> Answer | None:
        """Tell the consumer; returns what ends the batch, or None: the message is done."""
        message, context = delivery.message, delivery.context
        if self.untried:
            context.not_tried(message)
        if self.wait is not None:
            return context.suspend(self.wait)
        match self.outcome:
            case DeadLetter(reason):
                return context.dead_letter(message, reason)
            case Park(reason):
                return context.park(message, reason, self.failure)
            case Fail() as failed:
                return failed
        context.done(message)
        return None
