"""`orderly spark audit`: is every key of a topic in order? At once, or going on from a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.spark.here import Here
from orderly.cli.spark.options import Job, job_options
from orderly.errors import ConfigError

if TYPE_CHECKING:
    from orderly.spark.jobs.audit.folding import Batch
    from orderly.spark.jobs.audit.run import AuditResult, AuditSettings

EXAMPLES = """\b
Examples:
  orderly spark audit -t orders --seq-property version --no-gaps --out report
  orderly spark audit -t orders --seq-property n --state /data/audit/orders    # from cron
  orderly spark audit -t orders --seq-property n --state /data/audit/orders --follow 60s
"""
_SHOWN = 20


@click.command(cls=Command, epilog=EXAMPLES)
@click.option(
    "--seq-property",
    default="",
    metavar="NAME",
    help="The message property with the event's number, which rises with each message of a key."
    " Without it times of birth are judged.",
)
@click.option(
    "--gaps/--no-gaps",
    default=True,
    show_default=True,
    help="Whether numbers count one by one in each key, so that one left out is a message missing.",
)
@click.option(
    "--state",
    default="",
    metavar="DIR",
    help="Keep what was judged here, and read only what came since the last call.",
)
@click.option(
    "--follow",
    type=Duration(),
    metavar="DURATION",
    help="With --state: stay, and look again after DURATION; Ctrl-C ends it and judges.",
)
@redact_option
@job_options()
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    seq_property: str,
    gaps: bool,
    state: str,
    follow: float | None,
    redact_keys: str | None,
    job: Job,
) -> int:
    """Judge the order of every key of TOPIC over all of its history, or --from … --to ….

    Finds inversions, gaps, repeats, and keys in several queues, with the messages that show it.
    """
    if follow is not None and not state:
        raise click.UsageError("--follow goes on from a state: --state DIR names it", ctx)
    with job.running(ctx, "audit") as here:
        from orderly.spark.jobs.audit.run import AuditSettings, run  # noqa: PLC0415  pyspark

        settings = AuditSettings(
            here.source, seq_property, gaps=gaps, redact_keys=redact_keys is not None
        )
        if state:
            result = _incremental(here, settings, state, follow)
        else:
            result = run(here.spark, settings, here.output, here.progress)
        return here.tell(result.verdict, result.headline, answer(result))


def _incremental(
    here: Here, settings: AuditSettings, state: str, every: float | None
) -> AuditResult:
    """Read what is new, then judge all that was ever read."""
    from orderly.spark.jobs.audit import incremental  # noqa: PLC0415  pyspark
    from orderly.spark.jobs.files import alone, files_at  # noqa: PLC0415  pyspark

    busy = ConfigError(f"another audit goes on from {state}: wait for its end")
    with alone(files_at(here.spark, state), busy):
        query = incremental.follow(
            here.spark, settings, state, every=every, watch=None if here.job.quiet else _say
        )
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        return incremental.result(here.spark, settings, state, here.output, here.progress)


def _say(batch: Batch) -> None:
    wrong = f"{batch.suspects:,} keys look wrong" if batch.suspects else "in order"
    click.echo(f"batch {batch.number}: {batch.messages:,} messages, {wrong}", err=True)


def answer(result: AuditResult) -> Answer:
    """The worst keys."""
    columns = [
        Column("KEY"), Column("MESSAGES", Kind.COUNT), Column("QUEUES", Kind.COUNT),
        Column("INVERSIONS", Kind.COUNT), Column("ACROSS", Kind.COUNT), Column("GAPS", Kind.COUNT),
        Column("REPEATS", Kind.COUNT),
    ]  # fmt: skip
    names = ("key", "messages", "queues", "inversions", "across", "gaps", "repeats")
    rows = [tuple(row[name] for name in names) for row in result.worst(_SHOWN)]
    return Answer(columns, rows, document=lambda: result.document)
