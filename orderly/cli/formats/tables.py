"""Tables: aligned columns, two spaces between them. Pure.

Nothing is cut off: names are there to be copied.
"""

from __future__ import annotations

from typing import Any

import click

from orderly.cli.formats.answer import Answer, Column, Kind, Style
from orderly.cli.formats.values import shown
from orderly.monitoring.backlog.states import VERDICTS, Verdict

COLORS: dict[Verdict, dict[str, Any]] = {
    Verdict.OK: {"fg": "green"},
    Verdict.WARNING: {"fg": "yellow"},
    Verdict.CRITICAL: {"fg": "red", "bold": True},
    Verdict.UNKNOWN: {"fg": "magenta"},
}
_VERDICT = {str(state): verdict for state, verdict in VERDICTS.items()} | {
    verdict.name: verdict for verdict in Verdict
}


def table(answer: Answer, style: Style) -> str:
    """The columns that are not only for `wide`."""
    return _table(answer, style, [place for place, c in enumerate(answer.columns) if not c.wide])


def wide(answer: Answer, style: Style) -> str:
    """All columns."""
    return _table(answer, style, list(range(len(answer.columns))))


def _table(answer: Answer, style: Style, places: list[int]) -> str:
    columns = [answer.columns[place] for place in places]
    lines = [
        [
            shown(row[place], column.kind, style)
            for place, column in zip(places, columns, strict=True)
        ]
        for row in answer.rows
    ]
    lines.insert(0, [column.heading.upper() for column in columns])
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    first = 0 if style.headers else 1
    return "\n".join(
        "  ".join(
            _cell(text, column, width, style, heading=number == 0)
            for text, column, width in zip(cells, columns, widths, strict=True)
        ).rstrip()
        for number, cells in enumerate(lines[first:], first)
    )


def _cell(text: str, column: Column, width: int, style: Style, *, heading: bool) -> str:
    is_name = column.kind in (Kind.TEXT, Kind.STATE)
    padded = text.ljust(width) if is_name else text.rjust(width)
    if not style.color:
        return padded
    if heading:
        return click.style(padded, dim=True)
    return state(text, padded) if column.kind is Kind.STATE else padded


def state(word: str, padded: str = "") -> str:
    """A state or a verdict in its colour."""
    verdict = _VERDICT.get(word.partition(" ")[0])
    return click.style(padded or word, **COLORS[verdict]) if verdict is not None else padded or word
