"""The answers of a handler, and the effects of Java's four results: one table, each cell tested.

The typed outcomes below (`Ack`, `Suspend`, `Fail`, `Park`, `DeadLetter`) are mapped onto that table
by `consumer/handler_caller`; `consumer/finishing` parks and sends to the dead letters.

Java: ConsumeOrderlyStatus and ConsumeMessageOrderlyService.processConsumeResult. One cell differs
on purpose: ROLLBACK under auto-commit acts as SUSPEND, where Java acknowledges the message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import final

from orderly.config.arguments import MAX_LANE_SUSPEND, MIN_SUSPEND, check_number, check_text


class ConsumeResult(StrEnum):
    """A handler's answer. Anything else is a failure: None, another value or an exception."""

    SUCCESS = "SUCCESS"
    """Done (manual commit: done, to be committed later)."""
    SUSPEND = "SUSPEND"
    """Not done: the queue waits a moment and the same messages come again."""
    COMMIT = "COMMIT"
    """Manual commit: everything in hand is done."""
    ROLLBACK = "ROLLBACK"
    """Manual commit: everything in hand comes again, but the dead letters the call named."""


class Disposition(Enum):
    """What happens to the messages in hand."""

    COMMIT = "commit everything in hand"
    KEEP = "keep in hand until a later commit"
    PUT_BACK = "this batch becomes pending again, one attempt more"
    ROLLBACK = "everything in hand becomes pending again"


@dataclass(frozen=True, slots=True)
class Effect:
    """One cell: the disposition, whether the queue then waits, whether the answer was misplaced."""

    disposition: Disposition
    suspend: bool = False
    misplaced: bool = False

    @property
    def acknowledges(self) -> bool:
        """Whether the messages count as done, now or with a later commit."""
        return self.disposition in (Disposition.COMMIT, Disposition.KEEP)


PLAIN_SUCCESS = Effect(Disposition.COMMIT)
_AGAIN = Effect(Disposition.PUT_BACK, suspend=True)

EFFECTS: Mapping[tuple[bool, ConsumeResult], Effect] = {
    # (auto-commit, answer)            -> effect
    (True, ConsumeResult.SUCCESS): PLAIN_SUCCESS,
    (True, ConsumeResult.SUSPEND): _AGAIN,
    (True, ConsumeResult.COMMIT): Effect(Disposition.COMMIT, misplaced=True),
    (True, ConsumeResult.ROLLBACK): Effect(Disposition.PUT_BACK, suspend=True, misplaced=True),
    (False, ConsumeResult.SUCCESS): Effect(Disposition.KEEP),
    (False, ConsumeResult.SUSPEND): _AGAIN,
    (False, ConsumeResult.COMMIT): PLAIN_SUCCESS,
    (False, ConsumeResult.ROLLBACK): Effect(Disposition.ROLLBACK, suspend=True),
}

JAVA_EFFECTS: Mapping[tuple[bool, ConsumeResult], Effect] = {
    **EFFECTS,
    (True, ConsumeResult.ROLLBACK): Effect(Disposition.COMMIT, misplaced=True),
}
"""The table of the Java client, for `java_compat`."""

FAILURE = _AGAIN
"""A raise, None or a foreign value, in either mode: never an acknowledgement."""


ALL_FINISHED = Effect(Disposition.PUT_BACK)
"""A failed batch whose tried messages are all finished for good: nothing is left to wait for.

Java (checkReconsumeTimes) keeps such messages in hand under manual commit until a later COMMIT, and
runs them again on a ROLLBACK; here a dead letter is final.
"""


def effect_of(answer: ConsumeResult, *, auto_commit: bool, java_compat: bool = False) -> Effect:
    """Return the table's cell for a handler's answer.

    Raises:
        KeyError: `auto_commit` is neither True nor False.
    """
    return (JAVA_EFFECTS if java_compat else EFFECTS)[auto_commit, answer]


# --- typed outcomes -------------------------------------------------------------------------------
# One vocabulary for consumers and listeners: a closed set of frozen values. None, any other value
# and a raise are failures, never an acknowledgement.


@final
@dataclass(frozen=True, slots=True)
class Ack:
    """Done, as SUCCESS. Under manual commit the messages stay in hand until a later COMMIT."""


@final
@dataclass(frozen=True, slots=True)
class Suspend:
    """Not now: something else is down, and the message is not bad. The same messages come again.

    With `max_reconsume_times`, each Suspend counts like a failure, as in Java: with
    max_reconsume_times=2 a message that is suspended three times becomes a dead letter. So leave
    that limit out if something can be down for longer.

    Args:
        seconds: how long to wait, 0.01 to the consumer's `max_suspend`; a longer wait is a failure.
            None: the consumer or the listener decides, as after a failure.

    Raises:
        ConfigError: a wait that no consumer allows: it must be a number from 0.01 to 3600.
    """

    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_number("Suspend's seconds", self.seconds, MIN_SUSPEND, MAX_LANE_SUSPEND)


@final
@dataclass(frozen=True, slots=True)
class Fail:
    """Failed, as after an exception: the messages come again.

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
    """Park the messages' key and go on with the other keys; needs order="key".

    These messages, and all later ones of their key, are kept in order in the group's park topic
    until somebody releases the key. Where that is not possible (order by queue, no key, a limit),
    the message blocks its queue or key.

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
    """Send the batch to the group's dead letters, except messages marked as done or not tried.

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
