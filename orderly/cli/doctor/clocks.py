"""How far a broker's clock is from ours, from what it tells of its running. Pure.

It tells when its store was opened, and for how long that has been, both by its own clock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from orderly.cli.doctor.asking import Answer
from orderly.monitoring.texts import duration

_RUNTIME = re.compile(r"(\d{1,6}) days?, (\d{1,2}) hours?, (\d{1,2}) minutes?, (\d{1,2}) seconds?")
_UNITS = (86400, 3600, 60, 1)  # seconds
_RESOLUTION = 1.0  # second: it tells whole ones
_MILLIS = re.compile(r"\d{1,15}")
TOLERATED = 2.0  # seconds


@dataclass(frozen=True, slots=True)
class Difference:
    """A broker's clock minus ours, seconds; the truth is at most `doubt` away."""

    seconds: float
    doubt: float

    @property
    def matters(self) -> bool:
        """Whether it is too much for certain."""
        return abs(self.seconds) - self.doubt > TOLERATED

    def __str__(self) -> str:
        sign = "behind" if self.seconds < 0 else "ahead"
        if abs(self.seconds) <= self.doubt:
            return f"the same, within {self.doubt:.1f} s"
        return f"{duration(abs(self.seconds))} {sign}, within {self.doubt:.1f} s"


def difference(runtime: Mapping[str, object], answer: Answer) -> Difference | None:
    """Read it from a broker's runtime info; None if that does not tell.

    Args:
        runtime: what the broker told.
        answer: that it came with: when it was asked for, and when it came.
    """
    booted, running = str(runtime.get("bootTimestamp")), str(runtime.get("runtime"))
    found = _RUNTIME.search(running)
    if found is None or not _MILLIS.fullmatch(booted):
        return None
    ran = sum(unit * int(count) for unit, count in zip(_UNITS, found.groups(), strict=True))
    there = int(booted) / 1000 + ran + _RESOLUTION / 2
    here = (answer.sent + answer.came) / 2
    return Difference(there - here, (_RESOLUTION + answer.came - answer.sent) / 2)
