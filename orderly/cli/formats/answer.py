"""What a command found, in the shapes that formats need. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

Cell = str | int | float | None
"""None: not known."""


class Kind(Enum):
    """What a column holds: decides how it is written for a reader."""

    TEXT = auto()
    STATE = auto()  # a QueueState or a Verdict: coloured
    COUNT = auto()
    SECONDS = auto()  # inf: never
    RATE = auto()  # a second
    RATIO = auto()
    NUMBER = auto()  # of a unit that another column names


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, what it holds, and whether only `wide` shows it."""

    heading: str
    kind: Kind = Kind.TEXT
    wide: bool = False

    @property
    def name(self) -> str:
        """Its name for programs."""
        return self.heading.lower().replace(" ", "_").replace("/", "_per_")


@dataclass(frozen=True, slots=True)
class Answer:
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


@dataclass(frozen=True, slots=True)
class Style:
    """How a table is written.

    Attributes:
        headers: whether with headings.
        raw: numbers as they are: seconds, no thousands separators.
        color: whether with colours.
        terminal: whether for a reader at a terminal.
    """

    headers: bool = True
    raw: bool = False
    color: bool = False
    terminal: bool = False
