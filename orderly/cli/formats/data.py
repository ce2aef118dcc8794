"""Formats for programs: JSON, YAML, CSV, Prometheus, Nagios. Pure."""

from __future__ import annotations

import io
import json as java_script
from typing import Any

from orderly.cli.formats.answer import Answer, Cell, Style
from orderly.cli.formats.values import plain
from orderly.cli.text import printable
from orderly.errors import ConfigError

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what spreadsheets run


def json(answer: Answer, _: Style) -> str:
    """Indented JSON; escapes what is not ASCII, so nothing in it acts on a terminal."""
    return java_script.dumps(_document(answer), indent=2, allow_nan=False)


def yaml(answer: Answer, _: Style) -> str:
    """YAML of the same document."""
    try:
        import yaml as pyyaml  # noqa: PLC0415  only here, and costs time
    except ImportError as error:
        hint = "-o yaml needs PyYAML: pip install 'rocketmq-orderly[cli]'"
        raise ConfigError(hint) from error
    text: str = pyyaml.safe_dump(_document(answer), sort_keys=False, allow_unicode=False)
    return text.rstrip("\n")


def csv(answer: Answer, style: Style) -> str:
    """All columns, numbers as they are; a text that a spreadsheet would run is quoted with '."""
    import csv as comma  # noqa: PLC0415  only here, and costs time

    text = io.StringIO()
    writer = comma.writer(text, lineterminator="\n")
    if style.headers:
        writer.writerow(column.name for column in answer.columns)
    writer.writerows([_field(cell) for cell in row] for row in answer.rows)
    return text.getvalue().rstrip("\n")


def _field(cell: Cell) -> str:
    if not isinstance(cell, str):
        return plain(cell)
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA) else text


def prometheus(answer: Answer, _: Style) -> str:
    """Prometheus' text format."""
    text: str = _made(answer.metrics, "prometheus")
    return text.rstrip("\n")


def nagios(answer: Answer, _: Style) -> str:
    """The line of a monitoring plugin."""
    return printable(_made(answer.line, "nagios"))


def _document(answer: Answer) -> Any:
    return _made(answer.document, "json and yaml")


def _made(make: Any, name: str) -> Any:
    if make is None:
        raise ConfigError(f"this command has no output in {name}")
    return make()
