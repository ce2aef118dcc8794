"""What a job's report says, before it is a page. Pure; needs neither Spark nor matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.origin import Origin

Cell = str | int | float | Verdict | None
"""None: not known."""


class Kind(Enum):
    """What a column holds: decides how it is written."""

    TEXT = auto()
    KEY = auto()  # of a message, in a type of equal widths
    COUNT = auto()
    NUMBER = auto()  # two digits
    SHARE = auto()  # 0.25 is 25 %
    SECONDS = auto()  # how long
    TIME = auto()  # seconds since the epoch
    STATE = auto()  # a Verdict


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    heading: str
    kind: Kind = Kind.TEXT


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, the worst first.

    Attributes:
        columns: their headings and kinds; the first names the row.
        rows: a cell for each column.
        left_out: how many more there are.
        of: what a row is, as in "key".
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    left_out: int = 0
    of: str = "row"


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot.

    Attributes:
        caption: what it shows; its unit.
        svg: from `charts` or `plots`, under a name that no other plot of the report has.
        note: what to know about it, below.
    """

    caption: str
    svg: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report: text, then plots, then a table, as far as it has them.

    Attributes:
        text: paragraphs, with an empty line between.
    """

    title: str
    text: str = ""
    plots: Sequence[Plot] = ()
    table: Table | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One figure in large print."""

    name: str
    value: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All of it.

    Attributes:
        title: as in "Order of flights".
        verdict, headline: the whole in one word and in one sentence.
        origin: what was read, when, by what.
        facts: six at most find room.
    """

    title: str
    verdict: Verdict
    headline: str
    origin: Origin
    facts: Sequence[Fact] = ()
    sections: Sequence[Section] = ()
