"""The report of an archive run. Pure but for drawing."""

from __future__ import annotations

from collections import Counter

from orderly.monitoring.reporting.charts import Stick, columns
from orderly.monitoring.texts import counted
from orderly.spark.jobs.archive.ledger import Run
from orderly.spark.jobs.archive.result import ArchiveResult
from orderly.spark.jobs.origin import Origin
from orderly.spark.reporting.contents import Cell, Column, Fact, Kind, Plot, Report, Section, Table

_DAYS, _QUEUES, _RUNS = 60, 64, 30  # shown of each


def report(made_from: Origin, result: ArchiveResult) -> Report:
    """What the last call did, and what the archive holds.

    Args:
        made_from: what was read.
        result: with one finished run at least.
    """
    topic = result.pinned[0].queue.topic if result.pinned else ""
    return Report(
        title=f"Archive of {topic}",
        verdict=result.verdict,
        headline=result.headline,
        origin=made_from,
        facts=_facts(result),
        sections=(_by_day(result), _by_queue(result), _by_run(result)),
    )


def _facts(result: ArchiveResult) -> tuple[Fact, ...]:
    total = sum(run.rows for run in result.runs)
    lost = sum(run.lost for run in result.runs)
    days = _days(result)
    return (
        Fact("archived now", f"{result.rows:,}", "messages"),
        Fact("in the archive", f"{total:,}", "messages"),
        Fact("lost before archiving", f"{lost:,}", "messages, in all"),
        Fact("days", str(len(days)), f"{min(days)} to {max(days)}" if days else ""),
        Fact("queues", str(len(result.pinned))),
        Fact("runs", str(len(result.runs))),
    )


def _days(result: ArchiveResult) -> dict[str, int]:
    days: Counter[str] = Counter()
    for run in result.runs:
        days.update(run.days)
    return dict(sorted(days.items()))


def _by_day(result: ArchiveResult) -> Section:
    days = list(_days(result).items())
    sticks = [Stick(day[5:], rows) for day, rows in days[-_DAYS:]]
    note = f"The last {_DAYS} of {len(days)} days." if len(days) > _DAYS else ""
    plots = (Plot("Messages by day of storing (UTC)", columns("days", sticks, "day"), note),)
    return Section("Days", plots=plots if sticks else ())


def _by_queue(result: ArchiveResult) -> Section:
    rows, lost, absent = Counter[str](), Counter[str](), Counter[str]()
    for run in result.runs:
        for part in run.stretches:
            name = str(part.covered.queue)
            rows[name] += part.rows
            lost[name] += part.lost
            absent[name] += part.absent
    spans = result.pinned
    sticks = [Stick(str(it.queue.queue_id), rows[str(it.queue)]) for it in spans[:_QUEUES]]
    cells: list[tuple[Cell, ...]] = [
        (str(it.queue), it.start, it.end, *(table[str(it.queue)] for table in (rows, lost, absent)))
        for it in spans
    ]
    headings = ("from", "up to", "messages", "lost", "no message")
    table = Table(
        [Column("queue"), *(Column(heading, Kind.COUNT) for heading in headings)],
        cells[:_QUEUES],
        max(0, len(cells) - _QUEUES),
        of="queue",
    )
    text = (
        "Lost: deleted at the broker, by age or on a full disk, before a run came to it. No"
        " message: offsets at which the broker gave none"
        + (", filtered by tag among them." if result.tags != "*" else ".")
    )
    plot = Plot("Messages by queue", columns("queues", sticks, "queue"))
    return Section("Queues", text, (plot,), table)


def _by_run(result: ArchiveResult) -> Section:
    shown = result.runs[::-1][:_RUNS]
    table = Table(
        [
            Column("run"),
            Column("finished", Kind.TIME),
            Column("messages", Kind.COUNT),
            Column("lost", Kind.COUNT),
            Column("stored from", Kind.TIME),
            Column("to", Kind.TIME),
        ],
        [(str(run.number), run.at, run.rows, run.lost, *_stored(run)) for run in shown],
        len(result.runs) - len(shown),
        of="run",
    )
    runs = counted(len(result.runs), "run")
    text = f"{runs}, the last first. Each goes on where the one before ended."
    return Section("Runs", text, table=table)


def _stored(run: Run) -> tuple[float | None, float | None]:
    firsts = [part.first_stored for part in run.stretches if part.first_stored is not None]
    lasts = [part.last_stored for part in run.stretches if part.last_stored is not None]
    return min(firsts, default=None), max(lasts, default=None)
