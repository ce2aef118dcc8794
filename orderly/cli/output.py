"""How a command prints what it found: columns and cells, a colour a state, a writer a format.

A command makes a `CommandOutput`; `format_options` adds -o, --no-headers and --raw; `show` prints.
What is not known is `-` in a table, empty in CSV, null in JSON and YAML, and absent in metrics.
Only data is on stdout; everything else is stderr.
"""

from __future__ import annotations

import io
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import click

from orderly.cli.options import gathered
from orderly.cli.settings import CommonOptions
from orderly.cli.terminal import discard_stdout, printable
from orderly.errors import ConfigError
from orderly.extras import install
from orderly.monitoring.backlog.states import VERDICTS, Verdict
from orderly.monitoring.texts import Cell, Column, ColumnKind, duration, utc

F = TypeVar("F", bound=Callable[..., Any])
# --- what was found


_NAMES = (
    ColumnKind.TEXT,
    ColumnKind.STATE,
    ColumnKind.TIME,
)  # to the left; numbers are to the right


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command found; a part that is None has no such format.

    Attributes:
        columns, rows: for table, wide and csv.
        document: makes what json and yaml write.
        metrics: makes the text for prometheus.
        line: makes the line for nagios.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    document: Callable[[], Any] | None = None
    metrics: Callable[[], str] | None = None
    line: Callable[[], str] | None = None

    @classmethod
    def of(
        cls, columns: Sequence[Column], found: Iterable[Mapping[str, Any]], document: Any
    ) -> CommandOutput:
        """A row for each of `found`, whose fields have the columns' names."""
        rows = [[each[column.name] for column in columns] for each in found]
        return cls(columns, rows, lambda: document)


@dataclass(frozen=True, slots=True)
class Style:
    """How a table is written.

    Attributes:
        headers: whether with headings.
        raw: values as they are: seconds, no thousands separators.
        color: whether with colours.
        terminal: whether for a reader at a terminal.
    """

    headers: bool = True
    raw: bool = False
    color: bool = False
    terminal: bool = False


COLORS: dict[Verdict, dict[str, Any]] = {
    Verdict.OK: {"fg": "green"},
    Verdict.WARNING: {"fg": "yellow"},
    Verdict.CRITICAL: {"fg": "red", "bold": True},
    Verdict.UNKNOWN: {"fg": "magenta"},
}
_VERDICT = {str(state): verdict for state, verdict in VERDICTS.items()} | {
    verdict.name: verdict for verdict in Verdict
}


def state(word: str, padded: str = "") -> str:
    """A state or a verdict in its colour."""
    verdict = _VERDICT.get(word.partition(" ")[0])
    return click.style(padded or word, **COLORS[verdict]) if verdict is not None else padded or word


# --- values


def shown(cell: Cell, kind: ColumnKind, style: Style) -> str:
    """A cell of a table as a reader likes it: 5m12s, 12,345, 0.4; `-` if it is not known."""
    if cell is None or isinstance(cell, str):
        text = printable(cell or "") or "-"
        return f"{text[:16]}Z" if kind is ColumnKind.TIME and cell and not style.raw else text
    if style.raw:
        return plain(cell)
    return _WRITTEN[kind](cell, style) if kind in _WRITTEN else plain(cell)


_WRITTEN: dict[ColumnKind, Callable[[int | float, Style], str]] = {
    ColumnKind.SECONDS: lambda seconds, _: duration(seconds),
    ColumnKind.COUNT: lambda count, style: f"{count:,}" if style.terminal else str(count),
    ColumnKind.RATE: lambda rate, _: f"{rate:.1f}",
    ColumnKind.RATIO: lambda ratio, _: f"{ratio:.1f}",
}


def plain(cell: Cell) -> str:
    """A cell for programs: whole numbers whole, others to the millisecond; "" if not known."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.3f}".rstrip("0").rstrip(".") if math.isfinite(cell) else str(cell)
    return str(cell)


def moment(seconds: float) -> str:
    """A time of day in UTC, for the heading of a display that is drawn again and again."""
    return utc(seconds).strftime("%H:%M:%SZ")


# --- tables


def table(answer: CommandOutput, style: Style, *, everything: bool = False) -> str:
    """Aligned columns, two spaces between them.

    Nothing is cut off: names are there to be copied.

    Args:
        answer: what is shown.
        style: how.
        everything: whether with the columns that only `wide` shows.
    """
    columns = [column for column in answer.columns if everything or not column.wide]
    lines = [
        [
            shown(cell, column.kind, style)
            for cell, column in zip(row, answer.columns, strict=True)
            if everything or not column.wide
        ]
        for row in answer.rows
    ]
    lines.insert(0, [column.heading.upper() for column in columns])
    widths = [
        max(column.width, *map(len, cells))
        for column, cells in zip(columns, zip(*lines, strict=True), strict=True)
    ]
    if columns[-1].kind in _NAMES:
        widths[-1] = 0  # what ends a line is not filled up: it would only wrap
    first = 0 if style.headers else 1
    return "\n".join(
        "  ".join(
            _cell(text, column, width, style, heading=number == 0)
            for text, column, width in zip(cells, columns, widths, strict=True)
        ).rstrip()
        for number, cells in enumerate(lines[first:], first)
    )


def _cell(text: str, column: Column, width: int, style: Style, *, heading: bool) -> str:
    padded = text.ljust(width) if column.kind in _NAMES else text.rjust(width)
    if not style.color:
        return padded
    if heading:
        return click.style(padded, dim=True)
    return state(text, padded) if column.kind is ColumnKind.STATE else padded


# --- formats for programs

_FORMULA = frozenset("=+-@")  # what begins with one of these, spreadsheets run


def _json(answer: CommandOutput, _: Style) -> str:
    """Indented JSON; escapes what is not ASCII, so nothing in it acts on a terminal."""
    return json.dumps(_document(answer), indent=2, allow_nan=False)


def _yaml(answer: CommandOutput, style: Style) -> str:
    """YAML of the same document."""
    try:
        import yaml  # noqa: PLC0415  only here, and costs time
    except ImportError as error:
        hint = f"-o yaml needs PyYAML: {install('cli')}"
        raise ConfigError(hint) from error
    document = json.loads(_json(answer, style))  # YAML takes no words of an enumeration
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=False)
    return text.rstrip("\n")


def _csv(answer: CommandOutput, style: Style) -> str:
    """All columns, numbers as they are; a text that a spreadsheet would run is quoted with '."""
    import csv  # noqa: PLC0415  only here, and costs time

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if style.headers:
        writer.writerow(column.name for column in answer.columns)
    writer.writerows([_field(cell) for cell in row] for row in answer.rows)
    return text.getvalue().rstrip("\n")


def _field(cell: Cell) -> str:
    if not isinstance(cell, str):
        return plain(cell)
    # In many countries a ";" begins the next cell, whatever the file's own separator.
    return ";".join(
        f"'{part}" if _is_formula(part) else part for part in printable(cell).split(";")
    )


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet would run it: also behind blanks, and in wide characters."""
    return unicodedata.normalize("NFKC", text.lstrip()[:1])[:1] in _FORMULA


def _prometheus(answer: CommandOutput, _: Style) -> str:
    """Prometheus' text format."""
    text: str = _made(answer.metrics, "prometheus")
    return text.rstrip("\n")


def _nagios(answer: CommandOutput, _: Style) -> str:
    """The line of a monitoring plugin."""
    return printable(_made(answer.line, "nagios"))


def _document(answer: CommandOutput) -> Any:
    return _made(answer.document, "json and yaml")


def _made(make: Any, name: str) -> Any:
    if make is None:
        raise ConfigError(f"this command has no output in {name}")
    return make()


# --- the options, and printing

_WRITERS: dict[str, Callable[[CommandOutput, Style], str]] = {
    "table": table,
    "wide": partial(table, everything=True),
    "json": _json,
    "yaml": _yaml,
    "csv": _csv,
    "prometheus": _prometheus,
    "nagios": _nagios,
}
FORMATS = ("table", "wide", "json", "yaml", "csv")
"""What every command has."""
OF_BACKLOGS = ("prometheus", "nagios")
"""What those have, besides, that judge backlogs."""


@dataclass(frozen=True, slots=True)
class Format:
    """What the options chose."""

    output: str
    headers: bool = True
    raw: bool = False

    @property
    def for_reader(self) -> bool:
        """Whether it is a table."""
        return self.output in ("table", "wide")

    @property
    def for_rows(self) -> bool:
        """Whether it is made of lines; if not, it is a document."""
        return self.output not in ("json", "yaml")

    def require_answer(self, ctx: click.Context, *answers: bool, otherwise: str = "--yes") -> None:
        """Refuse what would ask a question beside a document.

        Args:
            ctx: of the command.
            answers: whether each option that answers it is given.
            otherwise: these options.

        Raises:
            UsageError: it is a document, and none of them is given.
        """
        if not (self.for_reader or any(answers)):
            raise click.UsageError(f"with --output {self.output} give {otherwise}", ctx)

    def style(self, *, color: bool) -> Style:
        """How a table on stdout is written."""
        return Style(self.headers, self.raw, color, sys.stdout.isatty())


def format_options(*more: str, default: str = "table") -> Callable[[F], F]:
    """Add -o with FORMATS and `more`, --no-headers and --raw, as `form`."""
    options = (
        click.option(
            "-o",
            "--output",
            type=click.Choice((*FORMATS, *more)),
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


def written(answer: CommandOutput, form: Format, *, color: bool) -> str:
    """The answer as a text without a last line end."""
    return _WRITERS[form.output](answer, form.style(color=color))


def show(answer: CommandOutput, form: Format, settings: CommonOptions) -> None:
    """Print the answer on stdout; a table without a line prints nothing.

    A reader that leaves (`| head -1`) ends the printing alone: the exit code is still the verdict.
    """
    color = settings.use_color()
    if text := written(answer, form, color=color):
        try:
            click.echo(text, color=color)
        except BrokenPipeError:
            discard_stdout()


def show_each(
    columns: Sequence[Column],
    found: Iterable[tuple[Mapping[str, Any], Any]],
    form: Format,
    settings: CommonOptions,
) -> None:
    """Print rows as they come: of each its fields, and its document, in JSON an object a line.

    The first row decides how wide a table's columns are.
    """
    color = settings.use_color()
    for number, (fields, document) in enumerate(found):
        answer = CommandOutput.of(columns, [fields], document)
        if form.output == "json":
            text = json.dumps(document)
        else:
            text = ("---\n" if form.output == "yaml" else "") + written(answer, form, color=color)
        click.echo(text, color=color)
        if number == 0:
            columns = _as_wide_as(answer, form)
            form = replace(form, headers=False)


def _as_wide_as(answer: CommandOutput, form: Format) -> list[Column]:
    """The columns, as wide as the answer's row makes them."""
    style, (row,) = form.style(color=False), answer.rows
    return [
        replace(column, width=max(len(column.heading), len(shown(cell, column.kind, style))))
        for column, cell in zip(answer.columns, row, strict=True)
    ]


# --- --group-by of lists of messages that failed: what they have in common, the most first --------


@dataclass(slots=True)
class Alike:
    """What a group of rows comes to: different keys, messages, and from when to when."""

    keys: set[object] = field(default_factory=set)
    messages: int = 0
    times: list[str] = field(default_factory=list)


def group_by_option(*choices: str) -> Callable[[F], F]:
    """Add --group-by as the argument `group_by`."""
    return click.option(
        "--group-by", type=click.Choice(choices), help="Count them by this instead of listing them."
    )


def grouped(rows: Iterable[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """Count rows by their field `by`, the most messages first.

    Args:
        rows: with the fields `by` (None: not known), key, messages and time (ISO 8601 in UTC).
        by: the field.
    """
    found: dict[str | None, Alike] = {}
    for row in rows:
        alike = found.setdefault(row[by], Alike())
        alike.messages += row["messages"]
        alike.keys |= set() if row["key"] is None else {(row["topic"], row["key"])}
        alike.times += [] if row["time"] is None else [row["time"]]
    groups = [
        {
            by: value,
            "keys": len(alike.keys),
            "messages": alike.messages,
            "first": min(alike.times, default=None),
            "last": max(alike.times, default=None),
        }
        for value, alike in found.items()
    ]
    return sorted(groups, key=lambda it: (-it["messages"], str(it[by])))


def show_groups(
    rows: Iterable[Mapping[str, Any]],
    by: str,
    document: Mapping[str, Any],
    form: Format,
    settings: CommonOptions,
) -> None:
    """Print what `grouped` returns; `document` has it as the field `groups`."""
    groups = grouped(rows, by)
    columns = (*_COUNTED, Column(by))
    show(
        CommandOutput.of(columns, groups, {**document, "by": by, "groups": groups}), form, settings
    )


_COUNTED = (
    Column("keys", ColumnKind.COUNT),
    Column("messages", ColumnKind.COUNT),
    Column("first", ColumnKind.TIME),
    Column("last", ColumnKind.TIME),
)
