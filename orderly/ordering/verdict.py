"""What can be said about a failure: try again, poison, or an outage; and the rules' numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import final

from orderly.config.fields import require
from orderly.config.numbers import check_count, check_number
from orderly.ordering.circuit import Circuit


class Kind(Enum):
    """What the user's named exception classes say of a failure."""

    ORDINARY = "no class says anything"
    FATAL = "no other try helps"
    TRANSIENT = "it passes by itself"


class Finding(Enum):
    """What a failing message needs."""

    RETRY = "try again"
    POISON = "the message is bad: no try will help"
    OUTAGE = "something else is bad: parking would hit the innocent"


class Reason(Enum):
    """Why; each is a rule of `Verdicts`."""

    TOO_EARLY = "not enough tries, or not far enough apart"
    NO_CONTROL = "too few other keys succeeded meanwhile to tell the message from the handler"
    FATAL = "a class named as fatal"
    SAME_FAILURE = "it fails in the same way each time, while other keys succeed"
    EXHAUSTED = "it fails on and on, while other keys succeed"
    MOST_FAIL = "most other keys fail, too"
    SHARED = "other keys fail in the same way"
    UNPAID = "too few other keys succeeded since the last poison: a bad deploy, perhaps"
    BUDGET = "as many messages as may be were found poisoned of late"


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """What a verdict stands on.

    Attributes:
        attempts: of this message, those too close together counted as one.
        same: the last ones of them, which failed in the same way.
        seconds: since the message failed first.
        others: other keys tried lately.
        failing: those of them whose last try failed.
        alike: those of them whose last try failed in the same way.
        sharing: other keys that fail in the same way now, or were poisoned by it lately.
        quiet: seconds since the last of those that fail now began to.
        control: other keys that succeeded since the message failed first; counted up to what
            `PoisonRules.control_keys` needs.
    """

    attempts: int
    same: int
    seconds: float
    others: int
    failing: int
    alike: int
    sharing: int
    quiet: float
    control: int


@final
@dataclass(frozen=True, slots=True)
class Verdict:
    """About one failure.

    Attributes:
        finding: what the message needs.
        reason: the rule that decided.
        wait: seconds until the next try; 0.0 after POISON. Spread it by chance.
        evidence: what it stands on.
        circuit: the one that holds the key; closed if none does.
    """

    finding: Finding
    reason: Reason
    wait: float
    evidence: Evidence
    circuit: Circuit


@final
@dataclass(frozen=True, slots=True)
class PoisonRules:
    """The numbers of the rules; each rule is told at `Verdicts`.

    Attributes:
        attempts: tries of one message that fail in the same way.
        spacing: seconds; tries closer together count as one.
        span: seconds from the first to the last of them.
        patience: seconds in place of `span` where the tries prove little: transient classes,
            failures that went away for other messages, and failures that change.
        control_keys: other keys that must succeed.
        shared_keys: keys that fail in the same way, this one included, which make it an outage.
        outage_ratio: of the keys tried lately, from which on everything counts as failing.
        window: seconds that make "lately".
        memory: seconds for which a poisoned message, or a failure that went away, is remembered.
        most_poisoned: messages per `memory` seconds.
        first_wait: seconds after the first failure, doubled each time.
        longest_wait: seconds.

    Raises:
        ConfigError: a number outside its range, or two that contradict each other.
    """

    attempts: int = 5
    spacing: float = 0.5
    span: float = 60.0
    patience: float = 900.0
    control_keys: int = 5
    shared_keys: int = 5
    outage_ratio: float = 0.5
    window: float = 300.0
    memory: float = 3600.0
    most_poisoned: int = 20
    first_wait: float = 1.0
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        for name, low in _LEAST_COUNTS.items():
            check_count(name, getattr(self, name), low)
        for field in fields(self):
            if field.name not in _LEAST_COUNTS:
                check_number(field.name, getattr(self, field.name), 0)
        check_number("outage_ratio", self.outage_ratio, 0.1, 1.0)
        for shorter, longer in _ORDERED:
            require(
                0 < getattr(self, shorter) <= getattr(self, longer),
                f"{shorter} must be above 0 and not above {longer}",
            )


_LEAST_COUNTS = {"attempts": 2, "control_keys": 1, "shared_keys": 2, "most_poisoned": 1}
_ORDERED = (
    ("spacing", "first_wait"),  # or no try would count
    ("first_wait", "longest_wait"),
    ("longest_wait", "window"),  # or a waiting key would be forgotten between two tries
    ("span", "patience"),
    ("window", "memory"),
)
