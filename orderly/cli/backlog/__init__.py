"""`orderly backlog`: the table of its commands. Each is imported when it is called.

Measuring is `orderly.monitoring.collecting`, judging `orderly.monitoring.backlog`; here are the
options, the texts and the exit codes.
"""

from __future__ import annotations

import click

from orderly.cli.command import LazyGroup
from orderly.monitoring.backlog.states import MEANINGS

COMMANDS: dict[str, tuple[str, str]] = {
    "list": (
        "orderly.cli.backlog.list:list_groups",
        "The backlog of groups, topics or queues.",
    ),
    "describe": ("orderly.cli.backlog.describe", "All that is known about one group."),
    "watch": ("orderly.cli.backlog.watch", "The backlog as it changes."),
    "check": ("orderly.cli.backlog.check", "A verdict in one line, for cron, Nagios, CI, a probe."),
    "explain": ("orderly.cli.backlog.explain", "Why groups are behind, and what to do next."),
    "report": ("orderly.cli.backlog.report", "All of it as one HTML file, with plots."),
}


class DefaultIsList(LazyGroup):
    """`orderly backlog -t T` means `orderly backlog list -t T`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `list` first unless a command or a call for help is there, or may be completed."""
        begun = args[0] if args else "" if ctx.resilient_parsing else "-"
        if begun.startswith("-") and begun not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


STATES = "\b\nStates of a queue; the first that applies counts:\n" + "\n".join(
    f"  {state:<14}  {meaning}".rstrip() for state, meaning in MEANINGS.items()
)


@click.group(cls=DefaultIsList, table=COMMANDS, epilog=STATES)
def backlog() -> None:
    """How far behind consumer groups are. Without a command: list.

    Backlog is what is stored and not yet consumed, in messages. `-` means not known, which is
    never 0.
    """
