"""How long to wait after a failure: twice as long each time, or what the error asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from orderly.config.arguments import MIN_SUSPEND, is_number

_DOUBLINGS = 1000  # beyond, a float would overflow; every wait is at its longest long before


def doubled(failures: int, first: float, longest: float) -> float:
    """Return `first` seconds for the first failure, twice as much for each further one.

    Args:
        failures: in a row, this one included.
        first: seconds.
        longest: seconds at which the doubling ends.
    """
    doublings = min(max(failures - 1, 0), _DOUBLINGS)
    return min(first * 2.0**doublings, longest)


def backoff(failures: int, first: float, longest: float, draw: float) -> float:
    """Return the seconds to wait: the upper half of `doubled`, spread by `draw`.

    What failed together, because one thing was down, does not come again together.

    Args:
        failures: in a row, this one included.
        first: seconds the first wait takes at most.
        longest: seconds no wait exceeds, 0.01 or more.
        draw: by chance, from 0 to below 1.
    """
    full = doubled(failures, first, longest)
    return max(full * (0.5 + draw / 2), MIN_SUSPEND)


# --- how long an exception asks to wait: its own `retry_after`, or HTTP's Retry-After -------------


_LONGEST = 366 * 86_400.0  # seconds; beyond, it is a mistake and no wish
_SECONDS = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")
_PLACES: tuple[Callable[[Any], object], ...] = (
    lambda error: error.retry_after,
    lambda error: error.response.headers["Retry-After"],  # requests, httpx
    lambda error: error.headers["Retry-After"],  # urllib, aiohttp
)


def retry_after(error: object, wall_clock: float) -> float | None:
    """Return the seconds to wait before another try, 0 or more; None: it does not say.

    Looks at `error.retry_after`, then at the header Retry-After of `error.response` and of the
    error itself. Seconds, a timedelta and an HTTP date (RFC 9110) are understood; what is
    malformed, past or beyond a year is passed over. Never raises, with any attributes of the error
    do.

    Args:
        error: what was raised.
        wall_clock: seconds since the epoch, now.
    """
    for place in _PLACES:
        try:
            seconds = _seconds(place(error), wall_clock)
        except BaseException:  # noqa: BLE001, S112 - a user's class may do anything
            continue
        if is_number(seconds, 0, _LONGEST):
            return float(seconds)
    return None


def _seconds(value: object, wall_clock: float) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, str):
        return value
    if _SECONDS.fullmatch(value.strip()):
        return float(value)
    moment = parsedate_to_datetime(value)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp() - wall_clock
