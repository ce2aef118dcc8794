"""An archive checked as a whole: counted, its gaps named, and what is to be thought of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import counted
from orderly.spark.jobs.archive.book import Book
from orderly.spark.jobs.archive.result import ALL_TAGS
from orderly.spark.jobs.archive.verify import Counted, Gap, gaps, verify
from orderly.spark.jobs.files import files_at

SCHEMA = "orderly.spark.archive-check/v1"


@dataclass(frozen=True, slots=True)
class Checked:
    """What is in an archive.

    Attributes:
        queues: counted.
        gaps: stretches of offsets without a message, and why; not all of very many.
        tags: only messages with these are archived.
    """

    queues: tuple[Counted, ...]
    gaps: tuple[Gap, ...]
    tags: str

    @property
    def rows(self) -> int:
        """Messages that are there."""
        return sum(it.rows for it in self.queues)

    @property
    def lost(self) -> int:
        """Offsets that had expired before they were archived."""
        return sum(it.lost for it in self.queues)

    @property
    def absent(self) -> int:
        """Offsets that have no message and are not told as lost."""
        return sum(it.absent for it in self.queues)

    @property
    def verdict(self) -> Verdict:
        """CRITICAL: it is not what its book says. WARNING: something is missing."""
        if not all(it.is_sound for it in self.queues):
            return Verdict.CRITICAL
        is_whole = not self.lost and (self.absent == 0 or self.tags != ALL_TAGS)
        return Verdict.OK if is_whole else Verdict.WARNING

    @property
    def headline(self) -> str:
        """All of it in a sentence or two."""
        return " ".join(self._said())

    def _said(self) -> Iterator[str]:
        rows = counted(self.rows, "message", f"{self.rows:,}")
        yield f"{rows} of {counted(len(self.queues), 'queue')} are there."
        bad = [it for it in self.queues if not it.is_sound]
        if bad:
            queue = bad[0].covered.queue
            yield f"{queue} is not what the book says: files were changed or removed."
        if self.lost:
            yield f"{self.lost:,} had expired before they were archived."
        if self.absent:
            why = "nothing says why" if self.tags == ALL_TAGS else "filtered by tag"
            yield f"{counted(self.absent, 'offset', f'{self.absent:,}')} without one: {why}."

    def document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "schema": SCHEMA,
            "verdict": self.verdict.name,
            "rows": self.rows,
            "lost": self.lost,
            "absent": self.absent,
            "queues": [
                {
                    "queue": str(it.covered.queue),
                    "start": it.covered.start,
                    "end": it.covered.end,
                    "rows": it.rows,
                    "recorded": it.recorded,
                    "lost": it.lost,
                    "absent": it.absent,
                    "repeated": it.repeated,
                    "outside": it.outside,
                }
                for it in self.queues
            ],
            "gaps": [
                {
                    "queue": str(it.missing.queue),
                    "start": it.missing.start,
                    "end": it.missing.end,
                    "why": it.why,
                }
                for it in self.gaps
            ],
        }


def check(spark: SparkSession, directory: str, topic: str) -> Checked:
    """Count an archive against its book.

    Args:
        spark: the session.
        directory: of the archive.
        topic: that it must be of.

    Raises:
        ConfigError: there is none, or it is another topic's.
        OrderlyError: its book is damaged.
    """
    book = Book(spark, files_at(spark, directory))
    identity = book.identity()
    if identity is None or identity.topic != topic:
        found = "no archive" if identity is None else f"an archive of {identity.topic}"
        raise ConfigError(f"{directory} is {found}, and not of {topic}: name another directory")
    runs = book.runs()
    queues = tuple(verify(spark, directory, runs))
    has_gaps = any(it.lost or it.absent for it in queues)
    named = gaps(spark, directory, runs, tags=identity.tags) if has_gaps else []
    return Checked(queues, tuple(named), identity.tags)
