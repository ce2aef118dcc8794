"""`orderly audit placement`: do all producers of a topic put keys into the same queues?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.formats import Format, format_options, show
from orderly.cli.sampling import Reading, of_topic, patience_option, since_option, tell_gaps
from orderly.cli.settings import Settings, common_options, settings_of

if TYPE_CHECKING:
    from orderly.monitoring.collecting.placement_sample import TopicPlacement
    from orderly.monitoring.collecting.topic_sample import SampleSettings

EXAMPLES = """\b
Examples:
  orderly audit placement -t orders
  orderly audit placement -t orders --sample 50000 --since 24h -o json
  orderly audit placement -t orders --redact-keys hash
"""


@click.command(cls=Command, epilog=EXAMPLES)
@of_topic
@click.option(
    "--sample",
    type=click.IntRange(1, 100_000),
    default=5000,
    show_default=True,
    metavar="N",
    help="Look at so many messages.",
)
@since_option
@patience_option
@redact_option
@format_options("table", "json")
@common_options
@click.pass_context
def placement(
    ctx: click.Context,
    *,
    topic: str,
    sample: int,
    since: float | None,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Look for keys of TOPIC that lie in several queues, and tell whose selector placed them.

    Producers in other languages place the same key elsewhere unless they are told otherwise; so
    does any producer after the number of queues was changed. Nothing keeps the order of a key that
    lies in several queues.

    Reads a sample of the messages without a trace: nothing is pulled, no group appears.
    """
    from orderly.cli.placement_report import Report, answer, text  # noqa: PLC0415  quick --help
    from orderly.monitoring.collecting.topic_sample import SampleSettings  # noqa: PLC0415

    settings = settings_of(ctx)
    wanted = SampleSettings(sample=sample, interval=0.0, since=since, timeout=timeout)
    found = _look(settings, settings.topic(topic), wanted)
    report = Report(found.findings, found.errors, found.planned, redact=redact_keys is not None)
    if form.for_reader:
        click.echo(text(report, form, color=settings.use_color()), color=settings.use_color())
    else:
        show(answer(report), form, settings)
    tell_gaps(found.errors, found.findings.messages, found.planned)
    return int(report.verdict)


def _look(settings: Settings, topic: str, wanted: SampleSettings) -> TopicPlacement:
    from orderly.monitoring.collecting.placement_sample import look_at_placement  # noqa: PLC0415

    with settings.client(wanted.timeout) as client:
        return look_at_placement(client, topic, wanted, Reading().tell)
