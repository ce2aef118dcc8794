"""A report as one HTML file without scripts, that loads nothing.

All text is escaped; the page's own policy forbids what could act if something were not.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from orderly.foreign_text import escaped
from orderly.monitoring.texts import Cell, ColumnKind
from orderly.report import words
from orderly.report.contents import Report, StateCell

_RIGHT = {ColumnKind.COUNT, ColumnKind.RATIO, ColumnKind.RATE, ColumnKind.SHARE, ColumnKind.SECONDS}
_CLASSES = dict.fromkeys(_RIGHT, "number") | {ColumnKind.KEY: "key", ColumnKind.TIME: "time"}
_WRITTEN: dict[ColumnKind, Callable[[Any], str]] = {
    ColumnKind.COUNT: words.count,
    ColumnKind.RATIO: lambda value: f"{value:,.2f}",
    ColumnKind.RATE: words.rate,
    ColumnKind.SHARE: words.share,
    ColumnKind.SECONDS: words.duration,
    ColumnKind.TIME: words.clock,
}


def html(report: Report) -> str:
    """Write a report: a whole HTML document."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    return environment.from_string(_source("page.html")).render(
        it=report,
        css=Markup(_source("page.css")),  # noqa: S704  our own file
        drawing=_drawing,
        written=_written,
        clock=words.clock,
        left_out=words.left_out,
        classes=_CLASSES,
        is_state=lambda cell: isinstance(cell, StateCell),
    )


def _drawing(svg: str) -> Markup:
    """A plot of `charts`, whose texts are escaped, for the page as it is."""
    return Markup(svg)  # noqa: S704


def _written(cell: Cell, kind: ColumnKind) -> str:
    """A cell as a reader likes it."""
    if cell is None:
        return words.NOT_KNOWN
    return str(cell) if isinstance(cell, str) else _WRITTEN.get(kind, str)(cell)


def _finalized(value: Any) -> Any:
    """What is printed: nothing invisible in a text from elsewhere."""
    return value if isinstance(value, Markup) else escaped(str(value))


def _source(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
