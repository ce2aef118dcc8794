"""Positions in a queue, as users write them: "first", "last", a time, an offset."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from orderly.config.arguments import is_int
from orderly.errors import ConfigError
from orderly.model import MessageQueue

_WORDS = "'first', 'last' or an ISO 8601 time"


def parse_consume_from(text: str, what: str = "consume_from") -> str | datetime:
    """Read a start position: "first", "last", or a time (aware, UTC).

    Java's deprecated values act as "last", as they do there.

    Args:
        text: what the user wrote.
        what: the setting's name, for the error.

    Raises:
        ConfigError: anything else.
    """
    if not isinstance(text, str):
        raise ConfigError(f"{what}={text!r} must be a str: {_WORDS}")
    return _read(text, f"{what}={text!r} must be {_WORDS}")


def parse_position(position: int | str | datetime) -> int | str | datetime:
    """Read a position: an offset, or as `parse_consume_from`; a datetime is returned in UTC.

    Raises:
        ConfigError: anything else.
    """
    refusal = f"position={position!r} must be an offset (an int), a datetime, {_WORDS}"
    if isinstance(position, str):
        return _read(position, refusal)
    if isinstance(position, datetime):
        return _utc(position, refusal)
    if not is_int(position):
        raise ConfigError(refusal)
    return position


def check_offset(queue: MessageQueue, offset: int, low: int, high: int) -> None:
    """Refuse an offset that the queue does not have.

    Args:
        queue: for the error.
        offset: the user's.
        low: the queue's minimum.
        high: the queue's maximum, its end.

    Raises:
        ConfigError: with the range.
    """
    if not low <= offset <= high:
        raise ConfigError(
            f"offset {offset} is not in {queue}: it holds {low} to {high} (its end);"
            " choose one of these"
        )


def _read(text: str, refusal: str) -> str | datetime:
    word = text.strip().lower().removeprefix("consume_from_").removesuffix("_offset")
    if word in ("first", "last"):
        return word
    if word in ("last_offset_and_from_min_when_boot_first", "min", "max"):
        return "last"
    return _read_time(text, refusal)


def _read_time(text: str, refusal: str) -> datetime:
    try:
        if re.fullmatch(r"\d{14}", text):
            moment = datetime.strptime(text, "%Y%m%d%H%M%S")  # noqa: DTZ007  local, as Java reads it
        else:
            moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(refusal) from error
    return _utc(moment, refusal)


def _utc(moment: datetime, refusal: str) -> datetime:
    try:
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:  # at the ends of the calendar
        raise ConfigError(refusal) from error
