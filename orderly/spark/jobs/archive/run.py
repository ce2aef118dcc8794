"""The archive job: what came to a topic since the last run goes into Parquet files, each row once.

One archive has one writer; a second one on this machine is refused, elsewhere nobody can see it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from orderly.errors import ConfigError, OrderlyError
from orderly.model import MessageQueue
from orderly.spark.columns import COLUMNS
from orderly.spark.connecting import access_of
from orderly.spark.discovering import pin
from orderly.spark.jobs.archive.book import ROWS, Book, Identity
from orderly.spark.jobs.archive.ledger import Run, Stretch, covered, reached
from orderly.spark.jobs.archive.planning import Planned, gone, plan, steps
from orderly.spark.jobs.archive.reading import DAY, with_day
from orderly.spark.jobs.archive.report import report
from orderly.spark.jobs.archive.result import ArchiveResult
from orderly.spark.jobs.files import Files, alone, files_at
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.output import REPORT, Output, require_format
from orderly.spark.jobs.progress import Progress, silent
from orderly.spark.looking import look
from orderly.spark.offsets.losses import Span
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import parse
from orderly.spark.source import read

_PLACE = ("broker", "queue_id")


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """What to archive, and where.

    Args:
        source: options of the source: one topic; where the first run begins; where to end.
        directory: of the archive, new or one of the same topic.
        table_format: parquet or delta.
        step: messages of one run; what is more becomes several, each finished by itself.
    """

    source: Mapping[str, str]
    directory: str
    table_format: str = "parquet"
    step: int = 20_000_000


def run(
    spark: SparkSession, settings: ArchiveSettings, progress: Progress = silent
) -> ArchiveResult:
    """Archive what is new. A failure costs the run at hand: the next call does it again.

    Each call that adds something leaves a report in `reports/` of the archive.

    Args:
        spark: the session.
        settings: what and where.
        progress: told of each step.

    Raises:
        ConfigError: bad options, not one topic, another archive's directory, or a second writer.
        OrderlyError: the topic was made anew, a broker does not answer, the book is damaged.
    """
    require_format(spark, settings.table_format)
    files = files_at(spark, settings.directory)
    busy = ConfigError(f"another run is writing to the archive {files.root}; wait for its end")
    with alone(files, busy):
        return _run(spark, settings, files, progress)


def _run(
    spark: SparkSession, settings: ArchiveSettings, files: Files, progress: Progress
) -> ArchiveResult:
    book = Book(spark, files)
    with progress("asking the brokers"):
        asked, stored = _asked(_wanted(settings.source, is_new=not book.has_begun()))
    identity = _identity(settings, asked)
    book.claim(identity)
    book.settle()
    before = book.runs()
    known = [span for span in asked if span.queue in stored]
    missing = tuple(gone(known, reached(before)))
    planned = plan(known, stored, reached(before))
    added = [
        _archive(spark, settings, book, step, progress)
        for step in steps(planned, settings.step)
        if step
    ]
    result = ArchiveResult(tuple(added), (*before, *added), missing, identity.tags)
    return _told(settings, result, files)


def _wanted(source: Mapping[str, str], *, is_new: bool) -> dict[str, str]:
    """Where to begin counts once: what expired since is no matter of what was asked for then."""
    kept = (name for name in source if is_new or not name.lower().startswith("starting"))
    return {name: source[name] for name in kept}


def _asked(source: Mapping[str, str]) -> tuple[tuple[QueueRange, ...], Mapping[MessageQueue, Span]]:
    options = parse(source)
    with closing(access_of(options).client()) as client:
        asked = pin(source, client)
        topics = sorted({span.queue.topic for span in asked})
        if len(topics) != 1:
            raise ConfigError(f"an archive holds one topic, not {', '.join(topics) or 'none'}")
        return asked, look(client, topics).whole().spans


def _identity(settings: ArchiveSettings, asked: Sequence[QueueRange]) -> Identity:
    options = parse(settings.source)
    topic = asked[0].queue.topic
    return Identity(topic, options.scan.tags, options.scan.seq_property, settings.table_format)


# --- one run -------------------------------------------------------------------------------------


def _archive(
    spark: SparkSession,
    settings: ArchiveSettings,
    book: Book,
    planned: Sequence[Planned],
    progress: Progress,
) -> Run:
    number = len(book.runs()) + 1
    staging = f"{book.files.root}/{book.staging(number)}"
    ranges = tuple(each.readable for each in planned if each.readable.messages)
    found: Sequence[Any] = ()
    if ranges:
        # What expires between the plan and the reading is an error, and the next plan's loss.
        options = {**settings.source, "failOnDataLoss": "true"}
        with progress(f"archiving, run {number}"):
            _write(read(spark, ranges, columns=tuple(COLUMNS), **options), staging)
        with progress("counting"):
            found = _count(spark.read.schema(ROWS).parquet(staging))
    run = Run(
        number,
        time.time(),
        tuple(_stretch(each, found) for each in planned),
        _days(found),
        book.written(number),
    )
    book.finish(run)
    return run


def _write(messages: DataFrame, path: str) -> None:
    """A file for each task, day and queue, in the order of offsets."""
    ordered = with_day(messages).sortWithinPartitions(DAY, *_PLACE, "queue_offset")
    ordered.write.partitionBy(DAY, *_PLACE).parquet(path, mode="overwrite")


def _count(written: DataFrame) -> list[Any]:
    stored = sf.unix_micros("store_ts") / 1e6
    return (
        written.groupBy(sf.col(DAY).cast("string").alias(DAY), *_PLACE)
        .agg(
            sf.count("*").alias("rows"),
            sf.min("queue_offset").alias("first"),
            sf.max("queue_offset").alias("last"),
            sf.min(stored).alias("first_stored"),
            sf.max(stored).alias("last_stored"),
        )
        .collect()
    )


def _stretch(planned: Planned, found: Sequence[Any]) -> Stretch:
    """What was written of one queue.

    Raises:
        OrderlyError: it is more than was to be read; nothing is finished then.
    """
    queue, readable = planned.covered.queue, planned.readable
    place = (queue.broker_name, queue.queue_id)
    rows = [row for row in found if (row.broker, row.queue_id) == place]
    count = sum(row.rows for row in rows)
    if rows and (
        count > readable.messages
        or min(row.first for row in rows) < readable.start
        or max(row.last for row in rows) >= readable.end
    ):
        raise OrderlyError(f"{count} rows were read of {readable}, which is a defect: report it")
    return Stretch(
        planned.covered,
        planned.lost,
        count,
        min((row.first_stored for row in rows), default=None),
        max((row.last_stored for row in rows), default=None),
    )


def _days(found: Sequence[Any]) -> dict[str, int]:
    days: dict[str, int] = {}
    for row in found:
        days[row[DAY]] = days.get(row[DAY], 0) + row.rows
    return dict(sorted(days.items()))


def _told(settings: ArchiveSettings, result: ArchiveResult, files: Files) -> ArchiveResult:
    """Write the report of what was added."""
    options = {**settings.source, "directory": settings.directory, "format": settings.table_format}
    made_from = origin("archive", covered(result.added), options)
    document = made_from.document(result.verdict, result.figures())
    if not result.added:
        return replace(result, document=document)
    where = f"{files.root}/reports/run-{result.runs[-1].number:06}"
    with Output(where, overwrite=True) as output:
        output.finish(document, report(made_from, result))
        return replace(result, document=document, report=output.path(REPORT))
