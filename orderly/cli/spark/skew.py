"""`orderly spark skew`: hot keys and queues of a whole topic, and what other choices would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.skew import QueueNumbers
from orderly.cli.spark.options import Job, job_options

if TYPE_CHECKING:
    from orderly.spark.jobs.skew.run import SkewResult

EXAMPLES = """\b
Examples:
  orderly spark skew -t orders --out report
  orderly spark skew -t orders --from 2026-11-20T00:00:00Z --what-if 16,32,64 --redact-keys hash
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.option(
    "--what-if",
    type=QueueNumbers(),
    metavar="N,…",
    help="Other numbers of queues. Default: 1 to 64.",
)
@click.option(
    "--order",
    type=click.Choice(["key", "queue", "none"]),
    default=None,
    help="How the group that consumes keeps order: makes the advice fit.",
)
@redact_option
@job_options()
@click.pass_context
def skew(
    ctx: click.Context,
    *,
    what_if: tuple[int, ...] | None,
    order: str | None,
    redact_keys: str | None,
    job: Job,
) -> int:
    """Count all messages of TOPIC by key and queue, and tell what would make them more even.

    Exact counts, not a sample as `orderly skew` takes. Every selector is tried with every number
    of queues; the bound beside each says how even any selector could be.
    """
    with job.running(ctx, "skew") as here:
        from orderly.spark.jobs.skew.run import run  # noqa: PLC0415  pyspark
        from orderly.spark.jobs.skew.settings import SkewSettings  # noqa: PLC0415

        tried = {} if what_if is None else {"what_if": what_if}
        settings = SkewSettings(
            here.source, order=order or "", redact=redact_keys is not None, **tried
        )
        result = run(here.spark, settings, here.output, here.progress)
        found = result.findings
        why = found.recommendation.why if found.recommendation else ""
        return here.tell(result.verdict, f"{result.headline} {why}", answer(result))


def answer(result: SkewResult) -> Answer:
    """The most frequent keys."""
    found = result.findings
    columns = [Column("KEY"), Column("MESSAGES", Kind.COUNT), Column("SHARE", Kind.RATIO),
               Column("QUEUE"), Column("SPLIT")]  # fmt: skip
    rows = [
        (
            key.key,
            key.least,
            key.least / found.counted.keyed,
            f"{key.queue.broker_name}/{key.queue.queue_id}",
            "yes" if key.split else "no",
        )
        for key in found.counted.head[:10]
    ]
    return Answer(columns, rows, document=lambda: result.document)
