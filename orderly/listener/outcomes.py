"""What a listener's function is told, and what it may answer besides the outcomes of all handlers.

Only `Ack()` acknowledges. None, any other value and a raise are failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Park, Suspend


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """Which try this is.

    The function gets this and not the ConsumeContext: with that one it could acknowledge a message
    beside its answer.

    Attributes:
        number: 1 for the first try of this delivery; the tries in place count on.
        delivery: 1 for the first delivery; counted in memory, so a rebalance or a restart begins
            anew.
    """

    number: int
    delivery: int


@final
@dataclass(frozen=True, slots=True)
class Block:
    """The message blocks its queue: it is tried again for ever, each time with an error event.

    Args:
        reason: for the log.
    """

    reason: str


Outcome = Ack | Fail | Suspend | DeadLetter | Block | Park
"""What a listener's function may answer."""
