"""Options of commands: several as one argument, durations, HOST:PORT, NAME=VALUE, completion."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import seconds_of

F = TypeVar("F", bound=Callable[..., Any])
Options = Sequence[Callable[[Any], Any]]


def with_options(command: F, options: Options) -> F:
    """Add options, in the order in which help shows them."""
    for option in reversed(options):
        command = option(command)
    return command


def gathered(
    command: F, options: Options, names: Sequence[str], make: Callable[..., Any], argument: str
) -> F:
    """Add options whose values the command gets as one.

    Args:
        command: a function.
        options: to add.
        names: of their parameters.
        make: gets the values, in the order of `names`.
        argument: of the command, gets what `make` returns.
    """

    @wraps(with_options(command, options))
    def call(*args: Any, **values: Any) -> Any:
        together = make(*[values.pop(name) for name in names])
        return command(*args, **values, **{argument: together})

    return call  # type: ignore[return-value]


# --- durations: 90s, 5m, 2h, 500ms, or plain seconds; and other finite numbers --------------------


if TYPE_CHECKING:
    ParamType = click.ParamType[Any]
else:
    ParamType = click.ParamType  # click 8.1 has no type arguments


MOST = 36_500 * 86_400.0  # seconds; what waits can wait for no more than some 292 years


class Duration(ParamType):
    """Reads a duration as seconds; it must be at least `least`."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self._least = least

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a value of the command line, the environment or the settings file."""
        try:
            seconds = seconds_of(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        if seconds < self._least:
            self.fail(f"{value} is too short: at least {self._least:g} s", param, ctx)
        if seconds > MOST:
            self.fail(f"{value!s:.20} is too long: at most {MOST / 86400:g} d", param, ctx)
        return seconds


Position = str | float
EARLIEST, LATEST = "earliest", "latest"


class Moment(ParamType):
    """Reads a time as seconds since the epoch: ISO 8601, or how long ago it was.

    Args:
        words: that are also taken, and stay as they are.
    """

    name = "time"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> Position:
        """Read a value of the command line, the environment or the settings file."""
        text = str(value)
        if text in self._words:
            return text
        try:
            return _moment(text)
        except ConfigError:
            words = "".join(f"{word}, " for word in self._words)
            self.fail(
                f"{text!r} is not {words}an ISO 8601 time such as 2026-01-31T12:00:00Z (without a"
                " zone: local time), or how long ago: 10m",
                param,
                ctx,
            )


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return time.time() - seconds_of(text)


class Finite(click.FloatRange):
    """A number in a range, and neither nan nor infinite."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read a value of the command line, the environment or the settings file."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


# --- how long to wait -----------------------------------------------------------------------------


answers_option = click.option(
    "--timeout",
    type=Duration(0.1),
    default="10s",
    show_default=True,
    help="How long to wait for answers. What has not come by then is not known.",
)


# --- where to serve: HOST:PORT --------------------------------------------------------------------


def address(text: str, option: str, example: str) -> tuple[str, int]:
    """Read HOST:PORT; an IPv6 address is in brackets.

    Args:
        text: what was given.
        option: its name, and an example of a value: for the error.
        example: as above.

    Raises:
        ConfigError: it is something else.
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or (":" in host) != host.startswith("["):
        raise ConfigError(f"{option} takes HOST:PORT, as {example}, not {text!r}")
    return host.strip("[]"), int(port)


# --- texts with escapes, and NAME=VALUE -----------------------------------------------------------


_ESCAPES = {r"\n": "\n", r"\t": "\t", r"\r": "\r", r"\0": "\0", "\\\\": "\\"}


def unescaped(text: str) -> str:
    r"""A text in which \n, \t, \r, \0 and \\ mean characters that are hard to type in a shell."""
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), text)


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """Read what an option was given, each time it was given; of one name the last value counts.

    Raises:
        ConfigError: one without a name, or without "=".
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} takes NAME=VALUE, not {text!r}")
        found[name.strip()] = value
    return found


# --- names that a shell completes -----------------------------------------------------------------
# It puts them on the command line as they are, and runs what is in them: `$(…)`, or what follows a
# `;`. So a name server that lists such a topic would run a command. Of RocketMQ's own characters it
# is "|" that a shell acts on.

_HARMLESS = re.compile(r"[a-zA-Z0-9_%][a-zA-Z0-9_%.-]{0,254}")


def offered(names: Iterable[str], begun: str) -> list[str]:
    """Of some names those that begin so and that a shell takes as they are, sorted."""
    return sorted(name for name in names if name.startswith(begun) and _HARMLESS.fullmatch(name))
