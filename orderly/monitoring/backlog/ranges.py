"""Nagios ranges and durations: how a threshold is written.

    10       alert below 0 or above 10        10:      alert below 10
    ~:10     alert above 10                   10:20    alert below 10 or above 20
    @10:20   alert from 10 to 20              ~:       never

(Monitoring Plugins development guidelines, "Threshold and ranges".) Bounds may be durations.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Self

from orderly.errors import ConfigError

_UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = re.compile(rf"({_NUMBER})(ms|[smhd]?)", re.ASCII)
_PLAIN = re.compile(rf"-?{_NUMBER}", re.ASCII)
_INSIDE = "@"


def seconds_of(text: str) -> float:
    """Read a duration: 90s, 5m, 2h, 1d, 500ms, or plain seconds.

    Raises:
        ConfigError: anything else.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"{text!r} is not a duration: write a number and ms, s, m, h or d: 90s, 5m, 2h, 1d"
        )
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Range:
    """The values that are in order, bounds included; with `inside`, the ones that are not.

    Attributes:
        low, high: -inf and inf where open.
        inside: alert within the bounds, not outside.
        text: as it was written.
    """

    low: float
    high: float
    inside: bool
    text: str

    @classmethod
    def parse(cls, text: str, *, duration: bool = False) -> Self:
        """Read a range.

        Args:
            text: see the module.
            duration: whether bounds are durations, in seconds.

        Raises:
            ConfigError: not a range, or its lower bound is above the upper one.
        """
        inside = text.strip().startswith(_INSIDE)
        start, colon, end = text.strip().removeprefix(_INSIDE).rpartition(":")
        try:
            low = (_bound(start, -math.inf, duration) if start != "" else 0.0) if colon else 0.0
            high = _bound(end, math.inf, duration) if end != "" or not colon else math.inf
        except ConfigError as error:
            raise _no_range(text, duration) from error
        if low > high:
            raise ConfigError(f"range {text!r}: {start or '0'} is above {end}; swap them")
        return cls(low, high, inside, text.strip())

    def alerts(self, value: float) -> bool:
        """Whether a value is a reason for an alert."""
        return (self.low <= value <= self.high) == self.inside

    @property
    def never(self) -> bool:
        """Whether no value is a reason for an alert."""
        return not self.inside and (self.low, self.high) == (-math.inf, math.inf)

    def hides(self, other: Range) -> bool:
        """Whether all that `other` alerts of, this does too, and more."""
        if self.inside or other.inside:
            return False
        narrower = other.low <= self.low and self.high <= other.high
        return narrower and (self.low, self.high) != (other.low, other.high)

    def __str__(self) -> str:
        return self.text


def _bound(text: str, open_end: float, duration: bool) -> float:
    if text == "~" and open_end < 0:
        return open_end
    if duration:
        return seconds_of(text)
    if _PLAIN.fullmatch(text) is None:
        raise ConfigError(f"{text!r} is not a number")
    return float(text)


def _no_range(text: str, duration: bool) -> ConfigError:
    number = "5m" if duration else "10"
    what = "durations (500ms, 90s, 5m, 2h, 1d) or seconds" if duration else "numbers"
    return ConfigError(
        f"{text!r} is not a range: write {number} (alert above it), {number}: (below it),"
        f" 1:{number} (outside), @1:{number} (inside) or ~: (never), with {what}"
    )
