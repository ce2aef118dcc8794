"""`orderly bench` and the table of its commands; without one it is `run`."""

from __future__ import annotations

import click

from orderly.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("orderly.cli.bench.commands", "Send, then consume; with --rate both at once."),
    "send": ("orderly.cli.bench.commands", "Only send."),
    "consume": ("orderly.cli.bench.commands", "Only consume a backlog that is made before."),
    "clean": ("orderly.cli.bench.clean", "Take away what measurements left that were killed."),
}
_OF_THE_GROUP = ("-h", "--help")


class _RunIsMeant(LazyGroup):
    """Takes options that come without a command for those of `run`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in _OF_THE_GROUP):
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_RunIsMeant, table=COMMANDS)
def bench() -> None:
    """Measure your own cluster: how fast it goes, where time goes, what to try next.

    Without a command it is `run`. A topic and a group are made for it (orderly-bench-…), and taken
    away in the end, also after Ctrl-C. What it will send is told before.
    """
