"""`orderly spark`: the table of its commands. Each is imported when it is called."""

from __future__ import annotations

import click

from orderly.cli.lazy import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "audit": ("orderly.cli.spark.audit", "Is each key's order whole? Inversions, gaps, repeats."),
    "replay": ("orderly.cli.spark.replay", "From a table into a topic, in each key's order."),
    "bundle": (
        "orderly.cli.spark.bundle",
        "What a cluster needs to run these: a zip and a script.",
    ),
}


@click.group(cls=LazyGroup, table=COMMANDS)
def spark() -> None:
    """Jobs over whole topics, by Spark.

    They read beside consumers: no group is joined, nothing is committed. Spark runs inside this
    command, on all cores, unless --master names a cluster; `orderly spark bundle` makes what
    spark-submit takes.
    """
