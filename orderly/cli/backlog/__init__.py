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
    "describe": ("orderly.cli.backlog.describe", "Everything that is known about a group."),
    "watch": ("orderly.cli.backlog.watch", "The backlog, live."),
    "check": ("orderly.cli.backlog.check", "A one-line verdict for cron, Nagios, CI or a probe."),
    "explain": ("orderly.cli.backlog.explain", "Why groups are behind, and what to do next."),
    "report": ("orderly.cli.backlog.report", "Everything as one HTML file, with plots."),
}


class DefaultIsList(LazyGroup):
    """`orderly backlog -t T` means `orderly backlog list -t T`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put `list` first unless a command or a call for help is there, or may be completed."""
        begun = args[0] if args else "" if ctx.resilient_parsing else "-"
        if begun.startswith("-") and begun not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


STATES = "\b\nStates of a queue. If several apply, the first one counts:\n" + "\n".join(
    f"  {state:<14}  {meaning}".rstrip() for state, meaning in MEANINGS.items()
)


@click.group(cls=DefaultIsList, table=COMMANDS, epilog=STATES)
def backlog() -> None:
    """How far behind consumer groups are. Without a command, it runs `list`.

    The backlog is the number of messages stored and not yet consumed. `-` means not known; it
    never means 0.
    """
