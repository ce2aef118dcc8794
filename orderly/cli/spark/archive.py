"""`orderly spark archive`: what is new in a topic goes into Parquet files; --verify counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.command import Command
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.spark.here import Here
from orderly.cli.spark.options import Job, job_options

if TYPE_CHECKING:
    from orderly.spark.jobs.archive.check import Checked
    from orderly.spark.jobs.archive.result import ArchiveResult

EXAMPLES = """\b
Examples:
  orderly spark archive -t orders --out /data/orders        # from cron, as often as you like
  orderly spark archive -t orders --out /data/orders --verify
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.option(
    "--step",
    type=click.IntRange(1),
    default=20_000_000,
    show_default=True,
    metavar="MESSAGES",
    help="What is more becomes several runs: a failure costs one of them at most.",
)
@click.option("--verify", is_flag=True, help="Archive nothing; count what is there by its book.")
@job_options()
@click.pass_context
def archive(ctx: click.Context, *, step: int, verify: bool, job: Job) -> int:
    """Add to the archive DIR of TOPIC what came since the last call, each message once.

    DIR holds messages/dt=…/broker=…/queue_id=… with all columns, a page for each finished run, and
    reports. A call that fails, or is killed, leaves the archive as it was, and the next one makes
    up for it. --from counts for the first call only.
    """
    if not job.out:
        raise click.UsageError("name the archive's directory: --out DIR", ctx)
    with job.running(ctx, "archive", output=False) as here:
        return _checked(here) if verify else _archived(here, step)


def _archived(here: Here, step: int) -> int:
    from orderly.spark.jobs.archive.run import ArchiveSettings, run  # noqa: PLC0415  pyspark

    job = here.job
    settings = ArchiveSettings(here.source, job.out, job.table_format, step)
    result = run(here.spark, settings, here.progress)
    if result.report:
        click.echo(f"wrote {result.report}", err=True)
    return here.tell(result.verdict, result.headline, _of_runs(result))


def _of_runs(result: ArchiveResult) -> Answer:
    """The queues of what was added."""
    names = ("FROM", "UP TO", "MESSAGES", "LOST", "NO MESSAGE")
    columns = [
        Column("RUN", Kind.COUNT),
        Column("QUEUE"),
        *(Column(it, Kind.COUNT) for it in names),
    ]
    rows = [
        (
            run.number,
            str(part.covered.queue),
            part.covered.start,
            part.covered.end,
            part.rows,
            part.lost,
            part.absent,
        )
        for run in result.added
        for part in run.stretches
    ]
    return Answer(columns, rows, document=lambda: result.document)


def _checked(here: Here) -> int:
    from orderly.spark.jobs.archive.check import check  # noqa: PLC0415  pyspark

    topic = here.settings.topic(here.job.topic)
    with here.progress("counting the archive"):
        found = check(here.spark, here.job.out, topic)
    for gap in found.gaps[:20]:
        click.echo(f"{gap.missing}: {gap.why}", err=True)
    return here.tell(found.verdict, found.headline, _of_queues(found))


def _of_queues(found: Checked) -> Answer:
    names = ("FROM", "UP TO", "MESSAGES", "IN THE BOOK", "LOST", "NO MESSAGE", "TWICE")
    columns = [Column("QUEUE"), *(Column(name, Kind.COUNT) for name in names)]
    rows = [
        (
            str(it.covered.queue),
            it.covered.start,
            it.covered.end,
            it.rows,
            it.recorded,
            it.lost,
            it.absent,
            it.repeated,
        )
        for it in found.queues
    ]
    return Answer(columns, rows, document=found.document)
