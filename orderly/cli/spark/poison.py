"""`orderly spark poison`: what a group parked and gave up, by what failed alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.selection import group_argument
from orderly.cli.spark.here import connection
from orderly.cli.spark.options import Job, job_options
from orderly.foreign_text import escaped
from orderly.monitoring.texts import iso_time

if TYPE_CHECKING:
    from orderly.spark.jobs.poison.result import PoisonResult

EXAMPLES = """\b
Examples:
  orderly spark poison shipping
  orderly spark poison shipping --out poison && less poison/commands.sh
"""
_SAMPLE = 60  # characters


@click.command(cls=Command, epilog=EXAMPLES)
@group_argument
@click.option(
    "--no-search",
    is_flag=True,
    help="Do not read the source topics for what keys did behind their dead letters.",
)
@click.option("--bodies", is_flag=True, help="Show a body of each way of failing in the report.")
@redact_option
@job_options(topic=False)
@click.pass_context
def poison(
    ctx: click.Context,
    /,
    *,
    group: str,
    no_search: bool,
    bodies: bool,
    redact_keys: str | None,
    job: Job,
) -> int:
    """Group what GROUP parked and buried by what failed alike, and count keys that went on.

    Parked messages by their failure's fingerprint, dead letters (Java's, too) by topic and tag. A
    key that went on behind a dead letter has lost its order. With --out also what there is to
    replay: the table replay_list, for `orderly spark replay --places`, and commands.sh.
    """
    with job.running(ctx, "poison") as here:
        from orderly.spark.jobs.poison.run import PoisonSettings, run  # noqa: PLC0415  pyspark

        settings = PoisonSettings(
            here.settings.group(group),
            connection(here.settings),
            search=not no_search,
            bodies=bodies,
            redact=redact_keys is not None,
        )
        result = run(here.spark, settings, here.output, here.progress)
        return here.tell(result.verdict, result.headline, answer(result))


def answer(result: PoisonResult) -> Answer:
    """What failed alike, most messages first."""
    columns = [
        Column("WHAT FAILED"), Column("KIND"), Column("MESSAGES", Kind.COUNT),
        Column("KEYS", Kind.COUNT), Column("BEHIND", Kind.COUNT), Column("WAITING", Kind.COUNT),
        Column("LAST SEEN"),
    ]  # fmt: skip
    rows = [
        (
            escaped(it.cause)[:_SAMPLE],
            it.kind,
            it.messages,
            it.keys,
            it.behind,
            it.waiting,
            None if it.last_at is None else iso_time(it.last_at),
        )
        for it in result.clusters[:30]
    ]
    return Answer(columns, rows, document=lambda: result.document)
