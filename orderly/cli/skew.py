"""`orderly skew`: how unevenly messages flow into queues and over keys, and what would help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.formats import Format, format_options, show
from orderly.cli.sampling import Reading, of_topic, patience_option, since_option, tell_gaps
from orderly.cli.selection import Names, complete_group
from orderly.cli.settings import Settings, common_options, settings_of
from orderly.monitoring.backlog.states import Verdict

if TYPE_CHECKING:
    from orderly.monitoring.backlog.snapshot import GroupStatus
    from orderly.monitoring.collecting.topic_sample import SampleSettings, TopicSkew

    Kind = click.ParamType[tuple[int, ...]]
else:
    Kind = click.ParamType  # click 8.1 has no type arguments

_MOST_QUEUES = 4096


class QueueNumbers(Kind):
    """Reads "16,32"."""

    name = "numbers"

    def convert(
        self,
        value: str | tuple[int, ...],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> tuple[int, ...]:
        """Read a value of the command line, the environment or the settings file."""
        if isinstance(value, tuple):
            return value
        if not re.fullmatch(r"[0-9]{1,5}(,[0-9]{1,5})*", value.replace(" ", "")):
            self.fail(f"{value!r} is not a list of numbers, as in 16,32", param, ctx)
        numbers = tuple(map(int, value.split(",")))
        if not all(1 <= number <= _MOST_QUEUES for number in numbers):
            self.fail(f"{value!r}: numbers of queues are 1 to {_MOST_QUEUES}", param, ctx)
        return numbers


EXAMPLES = """\b
Examples:
  orderly skew -t orders
  orderly skew -t orders -g shipping --what-if 16,32
  orderly skew -t orders --since 6h --sample 20000 --redact-keys hash
"""


@click.command(cls=Command, epilog=EXAMPLES)
@of_topic
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=complete_group,
    help="Also the backlog of GROUP, and advice for it.",
)
@click.option(
    "--sample",
    type=click.IntRange(1, 1_000_000),
    default=2000,
    show_default=True,
    metavar="N",
    help="Look at the keys of so many messages.",
)
@click.option(
    "--what-if",
    type=QueueNumbers(),
    metavar="N,…",
    help="Other numbers of queues. Default: half, twice and four times as many.",
)
@since_option
@click.option(
    "--interval",
    type=Duration(0.1),
    default="5s",
    show_default=True,
    help="Without --since: for how long to count what comes.",
)
@patience_option
@redact_option
@format_options("table", "json", "csv", "yaml")
@common_options
@click.pass_context
def skew(
    ctx: click.Context,
    *,
    topic: str,
    group: str | None,
    sample: int,
    what_if: tuple[int, ...] | None,
    since: float | None,
    interval: float,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Tell how unevenly messages flow into the queues of TOPIC, and which keys cause it.

    Also what other numbers of queues would give, and what to do.

    Reads a sample of the messages without a trace: nothing is pulled, no group appears. What
    --what-if tells is the selector itself, asked for each message of the sample: hash_mod, Java's
    SelectMessageQueueByHash; numeric_mod if all keys are numbers; that of producers in another
    language if it is the one that explains the places.
    """
    from orderly.cli.skew_document import answer  # noqa: PLC0415  `--help` is quick
    from orderly.cli.skew_report import Report, text  # noqa: PLC0415
    from orderly.monitoring.collecting.topic_sample import SampleSettings  # noqa: PLC0415

    settings = settings_of(ctx)
    status = _group(settings, group, topic, timeout) if group is not None else None
    wanted = SampleSettings(
        sample=sample, interval=interval, since=since, timeout=timeout, what_if=what_if or ()
    )
    found = _look(settings, settings.topic(topic), wanted, default_numbers=what_if is None)
    report = Report(found, status, redact=redact_keys is not None)
    if form.for_reader:
        click.echo(text(report, form, color=settings.use_color()), color=settings.use_color())
    else:
        show(answer(report), form, settings)
    tell_gaps(found.errors, found.keys.messages, found.planned)
    return int(Verdict.UNKNOWN if found.errors else Verdict.OK)


def _group(settings: Settings, group: str, topic: str, timeout: float) -> GroupStatus:
    """What is known of the group in this topic."""
    from orderly.cli.backlog.measuring import Pace, measure  # noqa: PLC0415

    pace = Pace(samples=1, interval=1.0, timeout=timeout)
    snapshot = measure(settings, Names((group,), (topic,)), pace)
    return snapshot.groups[settings.group(group)]


def _look(
    settings: Settings, topic: str, wanted: SampleSettings, *, default_numbers: bool
) -> TopicSkew:
    from orderly.monitoring.collecting.topic_sample import look_at_topic  # noqa: PLC0415

    with settings.client(wanted.timeout) as client:
        if default_numbers:
            wanted = _with_numbers(wanted, len(client.routes.get(topic).write_queues()))
        if wanted.since is None:
            click.echo(f"counting what comes into {topic} for {wanted.interval:g} s", err=True)
        return look_at_topic(client, topic, wanted, Reading().tell)


def _with_numbers(wanted: SampleSettings, queues: int) -> SampleSettings:
    from dataclasses import replace  # noqa: PLC0415

    numbers = (queues // 2, queues * 2, queues * 4)
    return replace(wanted, what_if=tuple(n for n in numbers if 1 <= n <= _MOST_QUEUES))
