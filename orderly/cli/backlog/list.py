"""`orderly backlog list`: the backlog of groups, topics or queues."""

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
from orderly.cli.output import OF_BACKLOGS, Format, format_options, show
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import say
from orderly.monitoring.backlog.states import Verdict

EXAMPLES = """\b
Examples:
  orderly backlog                                  # all groups
  orderly backlog list 'ship*' --by queue -o wide  # queue by queue, with offsets and owners
  orderly backlog list --only-bad --sort-by age --top 10
"""


@click.command("list", cls=OrderlyCommand, epilog=EXAMPLES)
@groups_options()
@cut_options
@redact_option
@pace_options
@format_options(*OF_BACKLOGS)
@common_options
@click.pass_context
def list_groups(
    ctx: click.Context,
    *,
    names: Names,
    cut: ListingOptions,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """List how far behind all groups are, or only GROUP... (names or globs).

    Each line is one topic of one group: the state of its worst queue, the backlog in messages, the
    AGE of its oldest message, the time until the backlog is gone (ETA; it needs --samples 3) and
    its parked messages. DEAD (dead letters) and MEMBERS count for the whole group. `-` means not
    known; it never means 0.
    """
    settings, cut = settings_of(ctx), cut.fit(by_line=form.for_rows)
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    lines = lines_of(snapshot, cut)
    show(listing(snapshot, lines, cut), form, settings)
    if not lines:
        say(nothing(snapshot, cut, names))
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
