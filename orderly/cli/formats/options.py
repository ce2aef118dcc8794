"""The options -o, --no-headers, --raw, and the table of writers they choose from."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from orderly.cli.formats import data, tables
from orderly.cli.formats.answer import Answer, Style
from orderly.cli.gathering import gathered
from orderly.cli.settings import Settings
from orderly.cli.streams import discard

F = TypeVar("F", bound=Callable[..., Any])
WRITERS: dict[str, Callable[[Answer, Style], str]] = {
    "table": tables.table,
    "wide": tables.wide,
    "json": data.json,
    "yaml": data.yaml,
    "csv": data.csv,
    "prometheus": data.prometheus,
    "nagios": data.nagios,
}


@dataclass(frozen=True, slots=True)
class Format:
    """What the options chose."""

    output: str
    headers: bool
    raw: bool

    @property
    def for_reader(self) -> bool:
        """Whether it is a table."""
        return self.output in ("table", "wide")

    @property
    def for_rows(self) -> bool:
        """Whether it is made of lines; if not, it is a document."""
        return self.output not in ("json", "yaml")


def format_options(*names: str, default: str = "table") -> Callable[[F], F]:
    """Add -o with the formats `names` (all if none), --no-headers and --raw, as `form`."""
    options = (
        click.option(
            "-o",
            "--output",
            type=click.Choice(names or tuple(WRITERS)),
            default=default,
            show_default=True,
            help="How to print it.",
        ),
        click.option("--no-headers", is_flag=True, help="No headings in table and csv."),
        click.option("--raw", is_flag=True, help="Seconds and plain digits in tables."),
    )
    return lambda command: gathered(
        command, options, ("output", "no_headers", "raw"), _format, "form"
    )


def _format(output: str, no_headers: bool, raw: bool) -> Format:
    return Format(output, not no_headers, raw)


def written(answer: Answer, form: Format, *, color: bool) -> str:
    """The answer as a text without a last line end."""
    style = Style(form.headers, form.raw, color, sys.stdout.isatty())
    return WRITERS[form.output](answer, style)


def show(answer: Answer, form: Format, settings: Settings) -> None:
    """Print the answer on stdout; a table without a line prints nothing.

    A reader that leaves (`| head -1`) ends the printing alone: the exit code is still the verdict.
    """
    color = settings.use_color()
    if text := written(answer, form, color=color):
        try:
            click.echo(text, color=color)
        except BrokenPipeError:
            discard()
