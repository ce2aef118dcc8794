"""Checks of numbers that users give, and their bounds. A bool is no number, and neither is NaN."""

from __future__ import annotations

import sys
from threading import TIMEOUT_MAX
from typing import TypeGuard

from orderly.errors import ConfigError

MIN_SUSPEND = 0.01  # seconds (as Java)
MAX_SUSPEND = 30.0  # seconds a queue may wait (as Java)
MAX_LANE_SUSPEND = 3600.0  # seconds a key's lane may wait; other keys go on meanwhile

_ANY = sys.float_info.max  # finite


def is_int(value: object) -> TypeGuard[int]:
    """Whether `value` is an int and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object, low: float = -_ANY, high: float = _ANY) -> TypeGuard[float]:
    """Whether `value` is a finite number from `low` to `high`."""
    return (isinstance(value, float) or is_int(value)) and low <= value <= high


def check_number(name: str, value: object, low: float, high: float = _ANY) -> None:
    """Raise ConfigError unless `value` is a finite number from `low` to `high`."""
    if not is_number(value, low, high):
        bounds = f"{low:g} or more" if high == _ANY else f"{low:g} to {high:g}"
        raise ConfigError(f"{name} must be a number, {bounds}, not {value!r}")


def check_seconds(name: str, value: float) -> float:
    """Return `value` if it is a number of seconds above 0 that can be waited, else raise."""
    if not is_number(value, 0, TIMEOUT_MAX) or value == 0:
        raise ConfigError(f"{name} must be a number of seconds above 0, not {value!r}")
    return value


def check_timeout(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is None, or seconds that can be waited: 0 or more."""
    if value is not None and not is_number(value, 0, TIMEOUT_MAX):
        raise ConfigError(
            f"{name} must be a number of seconds, 0 or more, or None for no limit, not {value!r}"
        )


def check_count(name: str, value: object, low: int) -> None:
    """Raise ConfigError unless `value` is an int of at least `low`."""
    if not is_int(value) or value < low:
        raise ConfigError(f"{name} must be an int, {low} or more, not {value!r}")


def check_port(name: str, value: object) -> None:
    """Raise ConfigError unless `value` is a port, or 0 for any free one."""
    if not is_int(value) or not 0 <= value < 65536:
        raise ConfigError(f"{name} must be a port, 0 to 65535 (0: any free one), not {value!r}")
