"""`orderly backlog record`: measures again and again, and keeps all of it as Parquet."""

from __future__ import annotations

from pathlib import Path

import click

from orderly.cli.command import Command
from orderly.cli.durations import Duration
from orderly.cli.monitoring import monitor_of, recorder_of, told_to_end
from orderly.cli.selection import Names, selection_options
from orderly.cli.settings import common_options, settings_of
from orderly.monitoring.texts import duration

EXAMPLES = """\b
Examples:
  orderly backlog record /var/lib/backlogs --keep 90d
  orderly spark backlog /var/lib/backlogs --slo 1000 --slo-age 5m --out report
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--interval",
    type=Duration(1),
    default="15s",
    show_default=True,
    help="From the beginning of a scan to that of the next.",
)
@click.option("--keep", type=Duration(1), help="Remove days older than this, as 30d.")
@selection_options
@common_options
@click.pass_context
def record(
    ctx: click.Context, *, directory: Path, interval: float, keep: float | None, names: Names
) -> int:
    """Keep a history of backlogs in DIRECTORY, for `orderly spark backlog`.

    Every scan is on disk at once: dt=YYYY-MM-DD/snapshots-….parquet, a file an hour; the one that
    still grows begins with `_`. What could not be read is null. No keys are kept. A scan that
    fails is a gap, and the next one is tried. Ends cleanly on SIGTERM.
    """
    settings = settings_of(ctx)
    selection = names.selection(settings)
    wait = told_to_end()
    with (
        recorder_of(directory, interval, keep) as recorder,
        settings.client() as client,
        monitor_of(client, selection, interval, recorder.take),
    ):
        click.echo(f"recording into {directory} every {duration(interval)}", err=True)
        wait()
    return 0
