"""`orderly bench clean`: for measurements that were killed, or whose broker was away at the end."""

from __future__ import annotations

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.asking import confirmed
from orderly.cli.command import Command
from orderly.cli.settings import common_options, settings_of

EXAMPLES = """\b
Examples:
  orderly bench clean
  orderly bench clean --yes
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@common_options
@click.pass_context
def clean(ctx: click.Context, *, yes: bool) -> int:
    """Delete the topics and groups orderly-bench-… that measurements have left.

    One that runs at this moment would lose its own: it asks first.
    """
    from orderly.bench.scratch import delete, leftovers  # noqa: PLC0415  `--help` is quick

    with settings_of(ctx).client() as client:
        topics, groups = leftovers(client)
        for name in topics:
            click.echo(f"topic {name}")
        for name in groups:
            click.echo(f"group {name}")
        if not (topics or groups):
            click.echo("measurements have left nothing", err=True)
            return 0
        if not (yes or confirmed(ctx, "Delete all of these, with their messages?")):
            click.echo("nothing was deleted", err=True)
            return NOT_MEASURED
        left: list[str] = []
        delete(client, topics, groups, left)
    for line in left:
        click.echo(f"left behind: {line}", err=True)
    return NOT_MEASURED if left else 0
