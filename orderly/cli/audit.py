"""`orderly audit`: the table of its commands. Each is imported when it is called."""

from __future__ import annotations

import click

from orderly.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "placement": (
        "orderly.cli.audit_placement",
        "Does each key go to one queue, and by whose selector?",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def audit() -> None:
    """What is needed for order, checked on what is stored.

    Reads beside consumers: no group is joined, nothing is committed. `orderly spark audit` checks
    the order of every message of a topic.
    """
