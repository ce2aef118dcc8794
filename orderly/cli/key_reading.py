"""One bounded read of a topic's keys: what commands ask for, and what they print on stderr."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from orderly.cli.options import Duration
from orderly.cli.settings import CommonOptions
from orderly.cli.terminal import ProgressLine, say, say_unread

if TYPE_CHECKING:
    from orderly.monitoring.collecting.stored_keys import StoredKeys

sample_option = click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1_000_000),
    default=5000,
    show_default=True,
    metavar="N",
    help="Read at most N messages, the newest of each queue.",
)
patience_option = click.option(
    "--timeout",
    type=Duration(0.1),
    default="30s",
    show_default=True,
    help="Time limit for reading messages, and for each other step.",
)


def read_stored_keys(settings: CommonOptions, topic: str, most: int, timeout: float) -> StoredKeys:
    """Read at most so many messages, and say how far it is."""
    from orderly.monitoring.collecting.stored_keys import read_keys  # noqa: PLC0415  quick --help

    progress: ProgressLine | None = None

    def show_progress(count: int, planned: int) -> None:
        nonlocal progress
        progress = progress or ProgressLine("messages read", planned)
        progress.reached(count)

    with settings.client(timeout) as client:
        return read_keys(client, settings.topic(topic), most, timeout, show_progress)


def print_gaps(found: StoredKeys) -> None:
    """Say what the reading lacks."""
    say_unread(found.errors)
    if found.seen.messages < found.planned:
        say(
            f"{found.seen.messages} of {found.planned} messages were read: the others came too late"
            " (--timeout gives them longer), or are deleted",
        )
