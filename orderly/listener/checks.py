"""Checks that outcomes and rules share. A bool is no number, and neither is NaN."""

from __future__ import annotations

import sys

from orderly.errors import ConfigError

_ANY = sys.float_info.max  # finite


def check_number(name: str, value: object, low: float, high: float = _ANY) -> None:
    """Raise ConfigError unless `value` is a finite number from `low` to `high`."""
    number = None if isinstance(value, bool) else value
    if not isinstance(number, int | float) or not low <= number <= high:
        bounds = f"{low:g} or more" if high == _ANY else f"{low:g} to {high:g}"
        raise ConfigError(f"{name} must be a number, {bounds}, not {value!r}")


def check_count(name: str, value: object, low: int) -> None:
    """Raise ConfigError unless `value` is an int of at least `low`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ConfigError(f"{name} must be an int, {low} or more, not {value!r}")
