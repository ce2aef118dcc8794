"""Options that are durations: 90s, 5m, 2h, 500ms, or plain seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import seconds_of

if TYPE_CHECKING:
    Kind = click.ParamType[float]
else:
    Kind = click.ParamType  # click 8.1 has no type arguments


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
        return seconds
