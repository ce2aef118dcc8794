"""What the doctor found about one part, and what all of it comes to. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from orderly.monitoring.backlog.states import Verdict, severity


class State(StrEnum):
    """How it is with a part."""

    OK = "OK"
    ABSENT = "ABSENT"  # not there, or not told to this key; no fault, for most need it not
    WARNING = "WARNING"  # it works, and should be looked at
    UNKNOWN = "UNKNOWN"  # it could not be asked
    CRITICAL = "CRITICAL"  # it cannot be used, or would be refused

    @property
    def verdict(self) -> Verdict:
        """What it means for the exit code."""
        return Verdict.OK if self is State.ABSENT else Verdict[self.name]


@dataclass(frozen=True, slots=True)
class Finding:
    """About one part: what was found of it, and what to do about it.

    Attributes:
        area: which look it belongs to, as "brokers".
        part: what it is about.
        state: how it is.
        found: what was seen.
        advice: what to do, one line; "" where nothing is to be done.
    """

    area: str
    part: str
    state: State
    found: str = ""
    advice: str = ""


def verdict_of(findings: Iterable[Finding]) -> Verdict:
    """The worst: what is broken wins over what could not be asked, and that over warnings."""
    return max((found.state.verdict for found in findings), key=severity, default=Verdict.OK)


def to_do(findings: Iterable[Finding]) -> list[Finding]:
    """Those with advice, the worst first, else in their order; without what is only absent."""
    told = [found for found in findings if found.advice and found.state is not State.ABSENT]
    return sorted(told, key=lambda it: -severity(it.state.verdict))


def to_have(findings: Iterable[Finding]) -> list[Finding]:
    """What is absent, with how to have it."""
    return [found for found in findings if found.advice and found.state is State.ABSENT]
