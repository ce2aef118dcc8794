"""How far a long command is: a line on stderr now and then, so that stdout stays data."""

from __future__ import annotations

import time

import click

_EVERY = 1.0  # seconds


class Progress:
    """Counts what is done, and tells it at most once a second. For one thread.

    Args:
        what: is being done, as in "sent".
        total: of how many; None: not known.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what = what
        self._of = "" if total is None else f" of {total}"
        self._told_at = time.monotonic()

    def reached(self, count: int) -> None:
        """Note that `count` are done."""
        now = time.monotonic()
        if now - self._told_at >= _EVERY:
            self._told_at = now
            click.echo(f"{count}{self._of} {self._what}", err=True)
