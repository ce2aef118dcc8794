"""Questions to who runs the command, where there is somebody."""

from __future__ import annotations

import sys

import click


def require_somebody(ctx: click.Context, otherwise: str) -> None:
    """Refuse to ask where nobody would answer.

    Args:
        ctx: of the command.
        otherwise: what to give instead, as "--yes".

    Raises:
        UsageError: standard input is no terminal.
    """
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody to ask here: give {otherwise}", ctx)


def confirmed(ctx: click.Context, question: str, otherwise: str = "--yes") -> bool:
    """Ask on stderr, with "no" as the default; see `require_somebody`."""
    require_somebody(ctx, otherwise)
    return click.confirm(question, err=True)
