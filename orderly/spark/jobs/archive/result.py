"""What came of a call of the archive job, and what is to be thought of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import counted
from orderly.spark.jobs.archive.ledger import Run, covered
from orderly.spark.offsets.ranges import QueueRange

ALL_TAGS = "*"


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What came of it.

    Attributes:
        added: the runs finished now; none if nothing was new.
        runs: all finished ones.
        gone: archived queues that the topic no longer has, or whose broker is not listed.
        tags: only messages with these are archived.
        document: as in result.json.
        report: where it was written; "": nothing was new.
    """

    added: tuple[Run, ...]
    runs: tuple[Run, ...]
    gone: tuple[MessageQueue, ...] = ()
    tags: str = ALL_TAGS
    document: Mapping[str, Any] = field(default_factory=dict)
    report: str = ""

    @property
    def pinned(self) -> tuple[QueueRange, ...]:
        """All that is archived, by queue."""
        return covered(self.runs)

    @property
    def rows(self) -> int:
        """Messages archived now."""
        return sum(run.rows for run in self.added)

    @property
    def lost(self) -> int:
        """Messages that were deleted at the brokers before they were archived, found out now."""
        return sum(run.lost for run in self.added)

    @property
    def unexplained(self) -> int:
        """Offsets that gave no message now, where no tag filters."""
        if self.tags != ALL_TAGS:
            return 0
        return sum(part.absent for run in self.added for part in run.stretches)

    @property
    def verdict(self) -> Verdict:
        """WARNING if something is missing that should be there."""
        is_fine = not (self.lost or self.unexplained or self.gone)
        return Verdict.OK if is_fine else Verdict.WARNING

    @property
    def headline(self) -> str:
        """All of it in a sentence or two."""
        return " ".join(self._said())

    def _said(self) -> Iterator[str]:
        if not self.added:
            yield "Nothing was new; the archive is unchanged."
        else:
            total = sum(run.rows for run in self.runs)
            added = counted(self.rows, "message", f"{self.rows:,}")
            yield f"{added} archived; the archive now holds {total:,}."
        if self.lost:
            lost = counted(self.lost, "message", f"{self.lost:,}")
            yield (
                f"{lost} had been deleted at the brokers before this run: let it run more often,"
                " or let brokers keep messages longer (fileReservedTime)."
            )
        if self.unexplained:
            yield f"{counted(self.unexplained, 'offset')} gave no message, and nothing says why."
        if self.gone:
            named = ", ".join(map(str, self.gone[:3])) + (", …" if self.gone[3:] else "")
            yield f"Queues that are archived are not listed any more: {named}."

    def figures(self) -> dict[str, Any]:
        """For result.json."""
        return {
            "added": [run.number for run in self.added],
            "rows": self.rows,
            "lost": self.lost,
            "unexplained": self.unexplained,
            "gone": list(map(str, self.gone)),
            "rows_in_all": sum(run.rows for run in self.runs),
        }
