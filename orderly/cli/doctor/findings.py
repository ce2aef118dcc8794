"""What the doctor looks for and finds, and how it is printed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal

from orderly.cli.output import CommandOutput
from orderly.cli.terminal import printable
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.monitoring.texts import Column, ColumnKind, iso_time

SCHEMA = "orderly.doctor/v2"
_COLUMNS = (
    Column("area"),
    Column("part"),
    Column("state", ColumnKind.STATE),
    Column("found"),
    Column("advice", wide=True),
)


class FindingState(StrEnum):
    """How it is with a part."""

    OK = "OK"
    ABSENT = "ABSENT"  # missing, or not shown to this key; not a fault, because most do not need it
    WARNING = "WARNING"  # it works, but look at it
    UNKNOWN = "UNKNOWN"  # it could not be asked
    CRITICAL = "CRITICAL"  # it cannot be used, or would be refused

    @property
    def verdict(self) -> Verdict:
        """What it means for the exit code."""
        return Verdict.OK if self is FindingState.ABSENT else Verdict[self.name]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """About one part: what was found of it, and what to do about it.

    Attributes:
        area: which look it belongs to, as "brokers".
        part: what it is about.
        state: how it is.
        found: what was seen.
        advice: what to do, one line; "" where nothing is to be done.
    """

    area: str
    part: str
    state: FindingState
    found: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class WantedStart:
    """A consumer, as far as its start hangs on the cluster; names are the brokers'.

    Attributes:
        group: None: only the topics are looked at.
        topics: () means those that the group has.
        order: "queue" or "key"; "": as the members that are there.
        broadcasting: None: as the members that are there.
        tags, sql: the filter; "": as the members that are there, else everything.
    """

    group: str | None = None
    topics: tuple[str, ...] = ()
    order: Literal["", "queue", "key"] = ""
    broadcasting: bool | None = None
    tags: str = ""
    sql: str = ""


# --- output ------------------------------------------------------------------------------------


def verdict_of(findings: Sequence[DoctorFinding]) -> Verdict:
    """The worst: what is broken wins over what could not be asked, and that over warnings."""
    return max((found.state.verdict for found in findings), key=severity)


def answer_of(findings: Sequence[DoctorFinding]) -> CommandOutput:
    """The findings in all formats."""
    rows = [(it.area, it.part, it.state.value, it.found or None, it.advice) for it in findings]
    return CommandOutput(_COLUMNS, rows, lambda: _document(findings))


def _document(findings: Sequence[DoctorFinding]) -> dict[str, Any]:
    verdict = verdict_of(findings)
    return {
        "schema": SCHEMA,
        "time": iso_time(time.time()),
        "verdict": verdict.name,
        "exit_code": int(verdict),
        "findings": [asdict(it) | {"state": it.state.value} for it in findings],
    }


def advice_lines(findings: Sequence[DoctorFinding]) -> list[str]:
    """What to do, one line each, the worst first; then what is absent, for who needs it."""
    advised = [it for it in findings if it.advice]
    worst = sorted(advised, key=lambda it: -severity(it.state.verdict))
    due = [
        f"{it.state.value:<8}  {it.part}: {it.advice}"
        for it in worst
        if it.state is not FindingState.ABSENT
    ]
    absent = [f"{it.part}: {it.advice}" for it in advised if it.state is FindingState.ABSENT]
    return [*_section("What to do:", due), *_section("Absent, if you need it:", absent)]


def _section(heading: str, lines: Sequence[str]) -> list[str]:
    return ["", heading, *map(printable, lines)] if lines else []
