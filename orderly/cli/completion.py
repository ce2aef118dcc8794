"""`orderly completion bash|zsh|fish`: prints what a shell needs to complete our command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from orderly.cli.command import OrderlyCommand

EXAMPLES = """\b
Examples:
  orderly completion bash

\b
How to install it:
  bash  eval "$(orderly completion bash)"     in ~/.bashrc
  zsh   eval "$(orderly completion zsh)"      in ~/.zshrc
  fish  orderly completion fish > ~/.config/fish/completions/orderly.fish
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> None:
    """Print the completion script for SHELL.

    It completes commands, options, and the names of groups, topics and contexts.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "orderly", "_ORDERLY_COMPLETE").source())
