"""`orderly spark audit`: is every key of a topic in order?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.spark.options import Job, job_options

if TYPE_CHECKING:
    from orderly.spark.jobs.audit.run import AuditResult

EXAMPLES = """\b
Examples:
  orderly spark audit -t orders --seq-property version --no-gaps --out report
  orderly spark audit -t orders --seq-property n --from 2026-11-20T00:00:00Z
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
@redact_option
@job_options()
@click.pass_context
def audit(
    ctx: click.Context,
    *,
    seq_property: str,
    gaps: bool,
    redact_keys: str | None,
    job: Job,
) -> int:
    """Judge the order of every key of TOPIC over all of its history, or --from … --to ….

    Finds inversions, gaps, repeats, and keys in several queues, with the messages that show it.
    """
    with job.running(ctx, "audit") as here:
        from orderly.spark.jobs.audit.run import AuditSettings, run  # noqa: PLC0415  pyspark

        settings = AuditSettings(
            here.source, seq_property, gaps=gaps, redact_keys=redact_keys is not None
        )
        result = run(here.spark, settings, here.output, here.progress)
        return here.tell(result.verdict, result.headline, answer(result))


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
