"""Options that are durations: 90s, 5m, 2h, 500ms, or plain seconds; and other finite numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import seconds_of

if TYPE_CHECKING:
    Kind = click.ParamType[float]
else:
    Kind = click.ParamType  # click 8.1 has no type arguments


MOST = 36_500 * 86_400.0  # seconds; what waits can wait for no more than some 292 years


class Duration(Kind):
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
