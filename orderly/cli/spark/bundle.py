"""`orderly spark bundle`: what a cluster needs to run the jobs."""

from __future__ import annotations

from pathlib import Path

import click

from orderly.cli.command import Command
from orderly.cli.settings import common_options

EXAMPLES = """\b
Examples:
  orderly spark bundle dist
  spark-submit --master yarn --py-files dist/orderly.zip dist/orderly_job.py \\
      audit --namesrv 10.0.0.1:9876 --topic orders --out hdfs:///reports/orders
"""


@click.command(cls=Command, epilog=EXAMPLES)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@common_options
def bundle(directory: Path) -> int:
    """Write orderly.zip and orderly_job.py to DIRECTORY, for spark-submit.

    The zip has orderly and the pure Python packages that it needs. The machines of the cluster
    need Python 3.11 or newer with numpy, pandas and pyarrow, the driver's also matplotlib.
    """
    from orderly.spark.bundling import write_bundle  # noqa: PLC0415  `--help` is quick

    for path in write_bundle(directory):
        click.echo(path)
    return 0
