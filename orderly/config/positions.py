"""Start positions in words: "first", "last" or a time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from orderly.errors import ConfigError


def parse_consume_from(text: str) -> str | datetime:
    """Read a start position: "first", "last", or a time (aware, UTC).

    Java's deprecated values act as "last", as they do there.

    Raises:
        ConfigError: anything else.
    """
    if not isinstance(text, str):
        raise ConfigError(
            f"consume_from={text!r} must be a str: 'first', 'last' or an ISO 8601 time"
        )
    word = text.strip().lower().removeprefix("consume_from_").removesuffix("_offset")
    if word in ("first", "last"):
        return word
    if word in ("last_offset_and_from_min_when_boot_first", "min", "max"):
        return "last"
    return _parse_time(text)


def _parse_time(text: str) -> datetime:
    try:
        if re.fullmatch(r"\d{14}", text):
            moment = datetime.strptime(text, "%Y%m%d%H%M%S")  # noqa: DTZ007  local, as Java reads it
        else:
            moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"consume_from={text!r} must be 'first', 'last' or an ISO 8601 time"
        ) from error
    return moment.astimezone(UTC)
