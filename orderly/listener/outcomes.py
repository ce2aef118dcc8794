"""What a listener's function is told, and what it may answer: a closed set of frozen values.

Only `Done()` acknowledges. None, any other value and a raise are failures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from orderly.config.numbers import check_number
from orderly.errors import NotAvailableYet
from orderly.ordering.context import MAX_SUSPEND, MIN_SUSPEND


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
class Done:
    """The message is done: the only acknowledgement."""


@final
@dataclass(frozen=True, slots=True)
class Again:
    """Try again in place, as after a raise; it counts as an attempt."""


@final
@dataclass(frozen=True, slots=True)
class Suspend:
    """The queue waits and the message comes again: something else is down, not the message bad.

    It is obeyed whatever the limit says. The delivery is counted all the same.

    Args:
        seconds: 0.01 to 30; None: the listener's growing wait.

    Raises:
        ConfigError: outside that range.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_number("Suspend's seconds", self.seconds, MIN_SUSPEND, MAX_SUSPEND)


@final
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The message goes to the group's dead letters and the queue goes on.

    Args:
        reason: for the log; not stored with the message.
    """

    reason: str


@final
@dataclass(frozen=True, slots=True)
class Block:
    """The message blocks its queue: it is tried again for ever, each time with an error event.

    Args:
        reason: for the log.
    """

    reason: str


@final
@dataclass(frozen=True, slots=True)
class Park:
    """Set the message's key aside and go on with the others.

    Raises:
        NotAvailableYet: always, in this release.
    """

    reason: str

    def __post_init__(self) -> None:
        raise NotAvailableYet("Park is not available yet; answer DeadLetter or Block instead")


Outcome = Done | Again | Suspend | DeadLetter | Block | Park
"""What a listener's function may answer."""
