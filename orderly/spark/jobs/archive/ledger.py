"""The book of an archive: what each finished run covered of each queue. Pure.

A run goes on where the one before ended, so the runs of a queue lie end to end. A run is finished
when its page of the book is there; nothing else says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue
from orderly.protocol.json_values import (
    load_object,
    natural_in,
    number_in,
    object_in,
    objects_in,
    text_in,
    texts_in,
)
from orderly.spark.offsets.ranges import QueueRange

SCHEMA = "orderly.spark.archive-run/v1"


@dataclass(frozen=True, slots=True)
class Stretch:
    """What one run covered of one queue.

    Attributes:
        covered: from the end of the run before.
        lost: so many offsets at its beginning the broker had deleted before they were archived.
        rows: messages archived. Fewer than offsets are left: the others hold none, or were
            filtered by tag.
        first_stored, last_stored: seconds since the epoch; None without rows.
    """

    covered: QueueRange
    lost: int
    rows: int
    first_stored: float | None = None
    last_stored: float | None = None

    @property
    def absent(self) -> int:
        """Offsets that were readable and gave no row."""
        return self.covered.messages - self.lost - self.rows


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run.

    Attributes:
        number: counts from 1.
        at: when it finished, in seconds since the epoch.
        stretches: by queue; queues in which nothing was new are left out.
        days: messages by day of storing, as ISO 8601 in UTC.
        files: what it wrote, by name below the archive's messages.
    """

    number: int
    at: float
    stretches: tuple[Stretch, ...]
    days: Mapping[str, int]
    files: tuple[str, ...]

    @property
    def rows(self) -> int:
        """Messages it archived."""
        return sum(stretch.rows for stretch in self.stretches)

    @property
    def lost(self) -> int:
        """Messages that were deleted before it could archive them."""
        return sum(stretch.lost for stretch in self.stretches)


def reached(runs: Iterable[Run]) -> dict[MessageQueue, int]:
    """Where the next run goes on, by queue."""
    return {part.covered.queue: part.covered.end for run in runs for part in run.stretches}


def covered(runs: Iterable[Run]) -> tuple[QueueRange, ...]:
    """What all runs together cover, by queue."""
    spans: dict[MessageQueue, QueueRange] = {}
    for run in runs:
        for part in run.stretches:
            queue = part.covered.queue
            start = spans[queue].start if queue in spans else part.covered.start
            spans[queue] = QueueRange(queue, start, part.covered.end)
    return tuple(spans[queue] for queue in sorted(spans))


def check_chain(runs: Sequence[Run]) -> None:
    """See that no run is missing and none overlaps.

    Args:
        runs: all of an archive, in order.

    Raises:
        OrderlyError: the archive's book has been changed by hand, or by two at once.
    """
    ends: dict[MessageQueue, int] = {}
    for number, run in enumerate(runs, 1):
        if run.number != number:
            raise OrderlyError(f"run {number} of the archive is missing: its page was removed")
        for part in run.stretches:
            end = ends.get(part.covered.queue, part.covered.start)
            if part.covered.start != end:
                raise OrderlyError(
                    f"run {number} of the archive begins at offset {part.covered.start} of"
                    f" {part.covered.queue}, where the run before ended at {end}"
                )
            ends[part.covered.queue] = part.covered.end


def to_text(run: Run) -> str:
    """Write a run's page."""
    page = {
        "schema": SCHEMA,
        "run": run.number,
        "at": run.at,
        "queues": list(map(_stretch_to_json, run.stretches)),
        "days": dict(run.days),
        "files": run.files,
    }
    return json.dumps(page, indent=1)


def from_text(text: str) -> Run:
    """Read a run's page.

    Raises:
        ProtocolError: it is damaged, or a newer release's.
    """
    page = load_object(text.encode())
    if page.get("schema") != SCHEMA:
        raise ProtocolError(f"a run of an archive is {page.get('schema')!r:.60}, not {SCHEMA!r}")
    days = object_in(page, "days")
    return Run(
        natural_in(page, "run"),
        number_in(page, "at"),
        tuple(map(_stretch_from_json, objects_in(page, "queues"))),
        {day: natural_in(days, day) for day in days},
        texts_in(page, "files"),
    )


def _stretch_to_json(part: Stretch) -> dict[str, Any]:
    queue = part.covered.queue
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "start": part.covered.start,
        "end": part.covered.end,
        "lost": part.lost,
        "rows": part.rows,
        "first_stored": part.first_stored,
        "last_stored": part.last_stored,
    }


def _stretch_from_json(fields: dict[str, Any]) -> Stretch:
    queue = MessageQueue(
        text_in(fields, "topic"), text_in(fields, "broker"), natural_in(fields, "queue_id")
    )
    span = QueueRange(queue, natural_in(fields, "start"), natural_in(fields, "end"))
    return Stretch(
        span,
        natural_in(fields, "lost"),
        natural_in(fields, "rows"),
        _moment(fields, "first_stored"),
        _moment(fields, "last_stored"),
    )


def _moment(fields: dict[str, Any], name: str) -> float | None:
    return None if fields.get(name) is None else number_in(fields, name)
