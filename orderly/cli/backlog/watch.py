"""`orderly backlog watch`: the backlog as it changes."""

from __future__ import annotations

import click

from orderly.cli.backlog.lines import Cut
from orderly.cli.backlog.ls import cut_options
from orderly.cli.backlog.redacting import redact_option
from orderly.cli.backlog.watching import Watch, follow
from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.formats import Format, format_options
from orderly.cli.selection import Names, selection_options
from orderly.cli.settings import common_options, settings_of

EXAMPLES = """\b
Examples:
  orderly backlog watch -g shipping --by queue
  orderly backlog watch --only-bad --interval 10s
  orderly backlog watch -g shipping -o csv --samples 60 > backlog.csv
"""


@click.command(cls=Command, epilog=EXAMPLES)
@selection_options
@cut_options
@click.option(
    "--interval", type=Duration(0.1), default="2s", show_default=True, help="Between two rounds."
)
@click.option("--samples", type=click.IntRange(1), metavar="N", help="End after N rounds.")
@click.option(
    "--timeout", type=Duration(0.1), default="10s", show_default=True, help="Of one round."
)
@redact_option
@format_options()
@common_options
@click.pass_context
def watch(
    ctx: click.Context,
    *,
    names: Names,
    cut: Cut,
    interval: float,
    samples: int | None,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Show the backlog again and again, with its trend, until Ctrl-C.

    A terminal is drawn anew each time: TREND has the last 20 rounds. In a pipe lines are appended,
    with their time. A round that fails is told, and the next one tried.
    """
    cut = cut.fit(told_by_line=form.for_rows)
    watched = Watch(names, cut, form, interval, timeout, samples, trend=True, redact=redact_keys)
    return follow(settings_of(ctx), watched)
