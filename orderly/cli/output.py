"""Results on stdout: a table to read, or JSON to parse. Data only; everything else is stderr.

On a terminal the table is drawn by rich, which is imported only then. In a pipe it is plain
aligned columns without colours or separators: numbers as digits, what is unknown as `-`.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click

from orderly.cli.settings import settings_of
from orderly.cli.text import printable
from orderly.model import ReceivedMessage, UndecodableMessage

STYLES = {
    "OK": "green",
    "NEW": "yellow",
    "UNKNOWN": "yellow",
    "LOST": "bold red",
    "AHEAD": "bold magenta",
    "RECREATED": "bold magenta",
}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings. A cell is a str, an int (right-aligned) or None (not known)."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str | int | None]]
    title: str = ""


def print_table(table: Table) -> None:
    """Print `table` on stdout, drawn on a terminal, plain in a pipe."""
    if sys.stdout.isatty():
        _draw(table)
    else:
        click.echo("\n".join(plain_lines(table)))


def print_json(value: Any) -> None:
    """Print `value` on stdout as indented JSON."""
    click.echo(json.dumps(value, indent=2))


def json_body(message: ReceivedMessage) -> dict[str, str]:
    """A message's body as a field of a JSON object: a text, or base64 if it is not UTF-8.

    Of one that cannot be read: the bytes as they are stored, in base64, and why.
    """
    if isinstance(message, UndecodableMessage):
        return _base64(message) | {"undecodable": message.why}
    try:
        return {"body": message.body.decode()}
    except UnicodeDecodeError:
        return _base64(message)


def _base64(message: ReceivedMessage) -> dict[str, str]:
    return {"body_base64": b64encode(message.raw_body).decode("ascii")}


def plain_lines(table: Table) -> list[str]:
    """`table` as aligned columns, two spaces between them; the title is left out."""
    rows = [[_plain(cell) for cell in row] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(table.headings, *rows, strict=True)]
    right = _numeric_columns(table)
    return [
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in ([heading.upper() for heading in table.headings], *rows)
    ]


def _plain(cell: str | int | None) -> str:
    return "-" if cell is None else printable(str(cell))


def _numeric_columns(table: Table) -> list[bool]:
    return [
        any(isinstance(row[place], int) for row in table.rows)
        for place in range(len(table.headings))
    ]


def _draw(table: Table) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415  only to draw
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as Drawn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Drawn(title=table.title or None, title_justify="left", box=SIMPLE_HEAD)
    for heading, number in zip(table.headings, _numeric_columns(table), strict=True):
        justify: Literal["left", "right"] = "right" if number else "left"
        drawn.add_column(Text(heading), justify=justify, overflow="fold")  # nothing is cut off
    for row in table.rows:
        drawn.add_row(*(Text(_grouped(cell), style=STYLES.get(str(cell), "")) for cell in row))
    Console(no_color=not _colored()).print(drawn)


def _colored() -> bool:
    context = click.get_current_context(silent=True)
    return context is None or settings_of(context).use_color()


def _grouped(cell: str | int | None) -> str:
    return f"{cell:,}" if isinstance(cell, int) else _plain(cell)
