"""A sample of a topic: what commands ask for, and what they tell of it on stderr."""

from __future__ import annotations

from collections.abc import Mapping

import click

from orderly.cli.durations import Duration
from orderly.cli.progress import Progress
from orderly.cli.selection import complete_topic
from orderly.cli.text import printable

of_topic = click.option(
    "-t", "--topic", required=True, metavar="TOPIC", shell_complete=complete_topic, help="Of what."
)
since_option = click.option(
    "--since",
    type=Duration(1),
    metavar="DURATION",
    help="Messages of that time, evenly, instead of the last ones: 90s, 15m, 6h.",
)
patience_option = click.option(
    "--timeout",
    type=Duration(0.1),
    default="30s",
    show_default=True,
    help="For reading messages, and for each other step.",
)


class Reading:
    """How far the reading is; it begins when it is first told of. For one thread."""

    def __init__(self) -> None:
        self._progress: Progress | None = None

    def tell(self, count: int, planned: int) -> None:
        """Note that `count` of `planned` messages have been read."""
        self._progress = self._progress or Progress("messages read", planned)
        self._progress.reached(count)


def tell_gaps(errors: Mapping[str, str], read: int, planned: int) -> None:
    """Say what the sample lacks.

    Args:
        errors: of brokers that did not answer, by name.
        read: how many messages were read.
        planned: how many were to be.
    """
    for name, error in errors.items():
        click.echo(printable(f"broker {name} could not be read: {error}"), err=True)
    if read < planned:
        click.echo(
            f"{read} of {planned} messages were read: the others came too late"
            " (--timeout gives them longer), or are deleted",
            err=True,
        )
