"""`orderly backlog ls`: the backlog of groups, topics or queues, once or again and again."""

from __future__ import annotations

import click

from orderly.cli.backlog.listing import (
    ListingOptions,
    cut_options,
    lines_of,
    listing,
    nothing,
    unread,
)
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.command import OrderlyCommand
from orderly.cli.options import Duration
from orderly.cli.output import OF_BACKLOGS, Format, format_options, show
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, selection_options
from orderly.cli.settings import common_options, settings_of
from orderly.monitoring.backlog.states import Verdict

EXAMPLES = """\b
Examples:
  orderly backlog                                  # all groups
  orderly backlog -g 'ship*' --by queue -o wide    # queue by queue, with offsets and owners
  orderly backlog --only-bad --sort-by age --top 10
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@selection_options
@cut_options
@click.option(
    "--watch",
    type=Duration(0.1),
    is_flag=False,
    flag_value="2s",
    metavar="[DURATION]",
    help="Again and again, every 2 s or as given: --watch=10s.",
)
@redact_option
@pace_options
@format_options(*OF_BACKLOGS)
@common_options
@click.pass_context
def ls(
    ctx: click.Context,
    *,
    names: Names,
    cut: ListingOptions,
    watch: float | None,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """List how far behind groups are.

    A line is a group's topic: its worst queue's state, the backlog in messages, the AGE of the
    oldest, the time until it is worked off (ETA; it needs --samples 3), parked messages. DEAD
    letters and MEMBERS are of the group. `-` means not known, which is never 0.
    """
    settings, cut = settings_of(ctx), cut.fit(by_line=form.for_rows)
    if watch is not None:
        from orderly.cli.backlog.watch import WatchOptions, follow  # noqa: PLC0415  only here

        return follow(
            settings, WatchOptions(names, cut, form, watch, pace.timeout, redact=redact_keys)
        )
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    lines = lines_of(snapshot, cut)
    show(listing(snapshot, lines, cut), form, settings)
    if not lines:
        click.echo(nothing(snapshot, cut, names), err=True)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
