"""Outcomes for a listener's function, in addition to those of all handlers.

Only `Ack()` says that the message was handled. None, any other value and an exception are failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from orderly.config.arguments import check_text
from orderly.ordering.results import Ack, DeadLetter, Fail, Park, Suspend


@final
@dataclass(frozen=True, slots=True)
class Block:
    """Block the queue, or the key: the message is tried for ever, with an error event each time.

    Args:
        reason: for the log.

    Raises:
        ConfigError: a reason that is not a str.
    """

    reason: str

    def __post_init__(self) -> None:
        check_text("Block's reason", self.reason)


@final
@dataclass(frozen=True, slots=True)
class Skip:
    """Give the message up: it is acknowledged without being handled, with an error event.

    Args:
        reason: for the log.

    Raises:
        ConfigError: a reason that is not a str.
    """

    reason: str

    def __post_init__(self) -> None:
        check_text("Skip's reason", self.reason)


Outcome = Ack | Fail | Suspend | DeadLetter | Park | Block | Skip
"""What a listener's function may answer."""

FINAL = Ack | Suspend | DeadLetter | Park | Block | Skip
"""Every outcome that is no failure."""


def too_long(outcome: object, longest: float) -> bool:
    """Whether it is a Suspend for more seconds than the consumer allows."""
    seconds = outcome.seconds if isinstance(outcome, Suspend) else None
    return seconds is not None and seconds > longest
