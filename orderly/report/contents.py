"""What a report says, before it is a page. Pure; needs neither jinja2 nor matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Cell, Column


@dataclass(frozen=True, slots=True)
class StateCell:
    """A word in the colour of its verdict, and what it means; "" is the verdict's name.

    What is worth a warning beside a state has words of its own (`beside`).
    """

    verdict: Verdict
    word: str = ""
    meaning: str = ""
    beside: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows, the worst first.

    Attributes:
        columns: their headings and kinds; the first names the row.
        rows: a cell for each column.
        left_out: how many more there are.
        of: what a row is, as in "key".
        name, about: what it can be folded under; "" is a table that cannot.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell | StateCell]]
    left_out: int = 0
    of: str = "row"
    name: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot.

    Attributes:
        caption, about: what it shows; its unit.
        svg: from `charts`, under a name that no other plot of the report has; "" for no plot.
        note: what to know about it, below.
    """

    caption: str
    svg: str
    note: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong.

    Attributes:
        verdict: how bad.
        name: a state, or what else it is.
        where: how much of it.
        facts: sentences: of the worst, and how many more there are.
        next: what to do; "" if nothing.
    """

    verdict: Verdict
    name: str
    where: str
    facts: Sequence[str]
    next: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Somebody's troubles, the worst first."""

    name: str
    verdict: Verdict
    troubles: Sequence[Trouble]


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the report: text, cases, plots, tables, a note, as far as it has them.

    Attributes:
        text: paragraphs, with an empty line between.
        note: in small print at the end.
    """

    title: str
    text: str = ""
    plots: Sequence[Plot] = ()
    tables: Sequence[Table] = ()
    cases: Sequence[Case] = ()
    note: str = ""


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
        at: when it was so, seconds since the epoch.
        made_by: the last line.
        facts: six at most find room.
        about: what to know of the figures, below them.
    """

    title: str
    verdict: Verdict
    headline: str
    at: float
    made_by: str
    facts: Sequence[Fact] = ()
    about: str = ""
    sections: Sequence[Section] = ()
