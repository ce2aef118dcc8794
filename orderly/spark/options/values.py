"""Reading the text of an option as what it means: (text, option's name) -> value."""

from __future__ import annotations

import re
from collections.abc import Callable

from orderly.config import check_group, check_topic
from orderly.errors import ConfigError
from orderly.protocol.heartbeat import Subscription
from orderly.spark.columns import arrow_schema
from orderly.spark.options.positions import Edge, Position, parse_offsets


def text(given: str, name: str) -> str:  # noqa: ARG001  all have one shape
    """Any text, without blanks around it."""
    return given.strip()


def truth(given: str, name: str) -> bool:
    """True or false."""
    try:
        return {"true": True, "false": False}[given.strip().lower()]
    except KeyError as error:
        raise ConfigError(f"{name}={given!r} must be true or false") from error


def whole(low: int, high: int) -> Callable[[str, str], int]:
    """A whole number from `low` to `high`."""

    def read(given: str, name: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", given.strip()) or not low <= int(given) <= high:
            raise ConfigError(f"{name}={given!r} must be a whole number from {low} to {high}")
        return int(given)

    return read


def one_of(*choices: str) -> Callable[[str, str], str]:
    """One of some words."""

    def read(given: str, name: str) -> str:
        word = given.strip().lower()
        if word not in choices:
            raise ConfigError(f"{name}={given!r} must be one of {', '.join(choices)}")
        return word

    return read


def topic(given: str, name: str) -> tuple[str, ...]:  # noqa: ARG001
    """The name of one topic."""
    return (check_topic(given.strip()),)


def group(given: str, name: str) -> str:  # noqa: ARG001
    """The name of a consumer group."""
    return check_group(given.strip())


def topics(given: str, name: str) -> tuple[str, ...]:
    """Names of topics."""
    return tuple(check_topic(word) for word in words(given, name))


def columns(given: str, name: str) -> tuple[str, ...]:
    """Names of columns."""
    names = words(given, name)
    arrow_schema(names)
    return names


def words(given: str, name: str) -> tuple[str, ...]:
    """Words between commas."""
    found = tuple(word.strip() for word in given.split(","))
    if not all(found) or len(set(found)) < len(found):
        raise ConfigError(f"{name}={given!r} must be names between commas, none of them twice")
    return found


def pattern(given: str, name: str) -> str:
    """A regular expression."""
    try:
        re.compile(given)
    except re.error as error:
        raise ConfigError(f"{name}={given!r} is no regular expression: {error}") from error
    return given


def tags(given: str, name: str) -> str:  # noqa: ARG001
    """Tags between "||", or "*"."""
    return Subscription.from_expression("any", given, 0).expression


def start(given: str, name: str) -> Position:
    """A position to begin at: queues not named begin with their oldest message."""
    return parse_offsets(given, name, others=Edge.EARLIEST)


def end(given: str, name: str) -> Position:
    """A position to end at: queues not named are read to their end."""
    return parse_offsets(given, name, others=Edge.LATEST)
