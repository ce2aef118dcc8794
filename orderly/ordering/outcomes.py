"""What a handler may answer: typed outcomes, and Java's four results.

One vocabulary for consumers and listeners: a closed set of frozen values. None, any other value
and a raise are failures, never an acknowledgement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from orderly.config.arguments import check_text
from orderly.config.numbers import MAX_LANE_SUSPEND, MIN_SUSPEND, check_number
from orderly.ordering.results import ConsumeResult


@final
@dataclass(frozen=True, slots=True)
class Ack:
    """Done, as SUCCESS: under manual commit in hand until a later COMMIT."""


@final
@dataclass(frozen=True, slots=True)
class Suspend:
    """Not now: something else is down, not the message bad. The same messages come again.

    Args:
        seconds: to wait, 0.01 to the consumer's `max_suspend`; None: it is not for the handler to
            say, the consumer or the listener waits as after a failure. More than `max_suspend` is
            a failure.

    Raises:
        ConfigError: a wait that no consumer allows: not a number from 0.01 to 3600.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_number("Suspend's seconds", self.seconds, MIN_SUSPEND, MAX_LANE_SUSPEND)


@final
@dataclass(frozen=True, slots=True)
class Fail:
    """Failed, as after a raise: the messages come again.

    Args:
        reason: for the log.

    Raises:
        ConfigError: a reason that is not a str.
    """

    reason: str

    def __post_init__(self) -> None:
        check_text("Fail's reason", self.reason)


@final
@dataclass(frozen=True, slots=True)
class Park:
    """Set the messages' key aside and go on with the others, with order="key".

    These messages, and all later ones of their key, are kept in order in the group's park topic
    until somebody releases the key. Where that is not possible (order by queue, no key, a limit)
    the message blocks its lane.

    Args:
        reason: for the log, and kept with the message.

    Raises:
        ConfigError: a reason that is not a str.
    """

    reason: str

    def __post_init__(self) -> None:
        check_text("Park's reason", self.reason)


@final
@dataclass(frozen=True, slots=True)
class DeadLetter:
    """To the group's dead letters: every message of the batch not named done or not tried.

    Args:
        reason: for the log; not stored with the message.

    Raises:
        ConfigError: a reason that is not a str.
    """

    reason: str

    def __post_init__(self) -> None:
        check_text("DeadLetter's reason", self.reason)


Answer = ConsumeResult | Ack | Suspend | Fail | Park | DeadLetter
"""What a handler may answer."""
