"""`orderly spark backlog`: promises kept and broken, standstills and busy hours, from a history."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.spark.options import Job, job_options
from orderly.errors import ConfigError

if TYPE_CHECKING:
    from orderly.spark.jobs.backlog.run import BacklogResult

EXAMPLES = """\b
Examples:
  orderly spark backlog /var/lib/backlogs --slo 1000 --slo-age 5m --out report
  orderly spark backlog /var/lib/backlogs -g 'ship*' --from 2026-11-01 --to 2026-12-01
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument(
    "directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="HISTORY"
)
@click.option(
    "-g",
    "--group",
    "groups",
    multiple=True,
    metavar="GLOB",
    help="Only these groups; may be given again.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="GLOB",
    help="Only these topics; may be given again.",
)
@click.option(
    "--from",
    "since",
    metavar="TIME",
    help="Snapshots since then: ISO 8601; UTC unless it says a zone.",
)
@click.option("--to", "until", metavar="TIME", help="As --from; snapshots before it.")
@click.option(
    "--slo",
    "slo_messages",
    type=click.IntRange(0),
    metavar="N",
    help="Promise: no group, and no queue, is more than N messages behind.",
)
@click.option(
    "--slo-age",
    type=Duration(0),
    help="Promise: no message waits longer than this: 90s, 5m, 2h.",
)
@click.option(
    "--join",
    type=Duration(0),
    default="60s",
    show_default=True,
    help="Breaches at most so far apart are one incident.",
)
@click.option(
    "--stuck-after",
    type=Duration(0),
    default="2m",
    show_default=True,
    help="A backlog without a commit for so long is a standstill.",
)
@job_options(topic=False)
@click.pass_context
def backlog(
    ctx: click.Context,
    /,
    *,
    directory: Path,
    since: str | None,
    until: str | None,
    job: Job,
    **wanted: Any,
) -> int:
    """Look through a HISTORY that `orderly backlog record` or `orderly exporter --record` keeps.

    Lag, rates and growth of each group and queue, promises broken, standstills, hours of the week.
    What was not measured is a gap, and never 0. No broker is asked.
    """
    asked = {"since": moment("--from", since), "until": moment("--to", until), **wanted}
    with job.running(ctx, "backlog") as here:
        from orderly.spark.jobs.backlog.run import run  # noqa: PLC0415  pyspark
        from orderly.spark.jobs.backlog.settings import BacklogSettings  # noqa: PLC0415

        result = run(here.spark, BacklogSettings(directory, **asked), here.output, here.progress)
        return here.tell(result.verdict, result.headline, answer(result))


_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")


def moment(option: str, text: str | None) -> float | None:
    """Seconds since the epoch of a time in ISO 8601.

    Raises:
        ConfigError: it is something else.
    """
    if text is None:
        return None
    try:
        if not _DATE.fullmatch(text):
            raise ValueError(text)  # noqa: TRY301  as the line below does
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"{option} {text!r} is no time: write 2026-11-21 or 2026-11-21T08:00:00Z"
        ) from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


_FIGURES = (
    (Column("LAST", Kind.COUNT), "last"),
    (Column("P95", Kind.COUNT), "p95"),
    (Column("MOST", Kind.COUNT), "most"),
    (Column("DRAINS/s", Kind.RATE), "drain_rate"),
    (Column("GROWS/h", Kind.NUMBER), "growth"),
    (Column("INCIDENTS", Kind.COUNT), "incidents"),
    (Column("BROKEN", Kind.SECONDS), "breached_seconds"),
    (Column("STUCK", Kind.SECONDS), "stuck_seconds"),
    (Column("GAPS", Kind.COUNT), "gaps"),
)


def answer(result: BacklogResult) -> Answer:
    """A line for each group, the worst first."""
    columns = [Column("GROUP"), *(column for column, _ in _FIGURES)]
    rows = [[group["group"], *_cells(group)] for group in result.findings.groups]
    return Answer(columns, rows, document=lambda: result.document)


def _cells(group: Mapping[str, Any]) -> Iterator[float | None]:
    for column, name in _FIGURES:
        value = group[name]
        rounded = column.kind is Kind.COUNT and value is not None
        yield round(value) if rounded else value
