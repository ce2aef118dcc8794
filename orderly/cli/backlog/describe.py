"""`orderly backlog describe`: all that is known about one group."""

from __future__ import annotations

import sys
from functools import partial

import click

from orderly.cli.backlog.describing import description
from orderly.cli.backlog.lines import Cut, Level, lines_of
from orderly.cli.backlog.ls import listing, unread
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.backlog.redacting import redact_option, redacted
from orderly.cli.command import Command
from orderly.cli.formats import Format, Style, format_options, show
from orderly.cli.selection import Names, complete_group, selection_options
from orderly.cli.settings import common_options, settings_of
from orderly.monitoring.backlog.states import Verdict

EXAMPLES = """\b
Examples:
  orderly backlog describe shipping
  orderly backlog describe shipping --samples 3 -o wide     # with rates
  orderly backlog describe shipping -o json
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("group_name", metavar="[GROUP]", required=False, shell_complete=complete_group)
@selection_options
@redact_option
@pace_options
@format_options()
@common_options
@click.pass_context
def describe(
    ctx: click.Context,
    *,
    group_name: str | None,
    names: Names,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """Tell all that is known about GROUP (or -g GROUP).

    Topics and queues with their offsets and owners, members, first messages that are not finished,
    parked keys, dead letters, and what is odd about the group as a whole.
    """
    names = names.with_group(group_name)
    if not names.groups:
        raise click.UsageError("say which GROUP", ctx)
    settings = settings_of(ctx)
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    if form.for_reader:
        color = settings.use_color()
        style = Style(form.headers, form.raw, color, sys.stdout.isatty())
        told = partial(description, snapshot.at, style=style, everything=form.output == "wide")
        click.echo("\n\n".join(told(group) for group in snapshot.groups.values()), color=color)
    else:
        cut = Cut(Level.QUEUE, retry=True)
        show(listing(snapshot, lines_of(snapshot, cut), cut), form, settings)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
