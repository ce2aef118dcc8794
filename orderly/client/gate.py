"""When the next question may go to one address: a cap in flight, a pace, and a circuit. Pure.

A monitor must not hurt what it watches: brokers share the threads that answer questions with
their other work, and one that hangs must not cost a time-out for each question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard one address may be asked.

    Attributes:
        in_flight: questions without an answer at once.
        per_second: questions a second, evenly spaced; None: no such limit.
        give_up_after: failures in a row after which no more is asked in this round.
        patience: seconds to wait for each answer.
    """

    in_flight: int = 32
    per_second: float | None = None
    give_up_after: int = 3
    patience: float = 3.0


@final
class Gate:
    """What may go to one address, and when. Not thread-safe; `now` is any steady clock, seconds.

    An answer that says no is an answer: only silence counts as a failure.

    Args:
        limits: of the address.
    """

    __slots__ = ("_failures", "_flying", "_limits", "_next_at", "_probing")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._flying = 0
        self._failures = 0
        self._probing = False
        self._next_at = -math.inf

    @property
    def shut(self) -> bool:
        """Whether nothing more may go in this round: too many failures in a row."""
        return self._failures >= self._limits.give_up_after and not self._probing

    def begin(self) -> None:
        """Begin a new round: an address that was given up gets one question as a probe."""
        self._probing = self._failures >= self._limits.give_up_after

    def wait(self, now: float) -> float:
        """Seconds until the next question may go; inf: not before an answer, or never."""
        most = 1 if self._failures else self._limits.in_flight  # silence may be beginning
        if self.shut or self._flying >= most:
            return math.inf
        return max(0.0, self._next_at - now)

    def sent(self, now: float) -> None:
        """Note that a question went out."""
        self._flying += 1
        if self._limits.per_second is not None:
            self._next_at = now + 1.0 / self._limits.per_second

    def answered(self) -> None:
        """Note an answer, whatever it says."""
        self._flying -= 1
        self._failures = 0
        self._probing = False

    def failed(self, failures: int = 1) -> None:
        """Note that a question will not be answered.

        Args:
            failures: 0: one that was counted before (a lost connection takes all that fly along).
        """
        self._flying -= 1
        self._failures += failures
        if failures:
            self._probing = False

    def give_up(self) -> None:
        """Ask no more in this round: it cannot even be reached."""
        self._failures = max(self._failures, self._limits.give_up_after)
        self._probing = False
