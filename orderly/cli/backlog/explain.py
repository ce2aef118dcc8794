"""`orderly backlog explain`: why groups are behind, and what to do next."""

from __future__ import annotations

import click

from orderly.cli.backlog.explaining import explanation
from orderly.cli.backlog.lines import Cut, Level, lines_of
from orderly.cli.backlog.ls import listing, unread
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.backlog.redacting import redact_option, redacted
from orderly.cli.command import Command
from orderly.cli.formats import Format, format_options, show
from orderly.cli.selection import Names, complete_group, selection_options
from orderly.cli.settings import common_options, settings_of
from orderly.monitoring.backlog.states import Verdict

EXAMPLES = """\b
Examples:
  orderly backlog explain
  orderly backlog explain shipping --samples 3 --interval 60s
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("group_name", metavar="[GROUP]", required=False, shell_complete=complete_group)
@selection_options
@redact_option
@pace_options
@format_options("table", "json", "yaml")
@common_options
@click.pass_context
def explain(
    ctx: click.Context,
    *,
    group_name: str | None,
    names: Names,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """Say in plain sentences why GROUP (or all groups) is behind, and what to do next.

    The worst comes first. Members of ours tell what fails, how often and how; of Java's members is
    told what they tell the broker. With --samples 3 --interval 60s it also sees what stands still
    without a visible cause.
    """
    settings = settings_of(ctx)
    snapshot = redacted(measure(settings, names.with_group(group_name), pace), redact_keys)
    if form.for_rows:
        click.echo("\n\n".join(explanation(snapshot)) or "no group has committed an offset")
    else:
        cut = Cut(Level.QUEUE, only_bad=True, retry=True)
        show(listing(snapshot, lines_of(snapshot, cut), cut), form, settings)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
