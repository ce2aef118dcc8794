"""`orderly broker`: a local RocketMQ broker that stays until it is stopped, or a fake one."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orderly.cli.command import Group
from orderly.cli.options import pairs
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.settings import common_options, settings_of
from orderly.errors import ConfigError, EmbeddedBrokerError
from orderly.monitoring.texts import Column

if TYPE_CHECKING:
    from orderly.testing.daemon_state import Daemon

_ENDS = (signal.SIGINT, signal.SIGTERM)
_LOGS = ("broker.log", "namesrv.log", "broker.out", "namesrv.out")


START = """\b
Examples:
  orderly broker start
  orderly broker start --port 9876 --directory ./broker
  orderly broker start --property enablePropertyFilter=true --foreground
"""
STOP = """\b
Examples:
  orderly broker stop
"""
STATUS = """\b
Examples:
  orderly broker status
  orderly broker status -o json
"""
LOGS = """\b
Examples:
  orderly broker logs -n 100
  orderly broker logs namesrv.log --follow
"""
FAKE = """\b
Examples:
  orderly broker fake --topic orders:8
  orderly broker fake --port 9876 --topic orders:8 --topic payments:4
"""


@click.group(cls=Group)
@common_options
def broker() -> None:
    """A local RocketMQ 5.5.0 broker on 127.0.0.1, for trials and tests."""


@broker.command(epilog=START)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where data and logs are kept. Default: in the user's cache.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The name server's port. Default: a free one.",
)
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the broker; may be given again.",
)
@click.option("--foreground", is_flag=True, help="Stay until Ctrl-C instead of going on behind.")
@format_options()
@click.pass_context
def start(
    ctx: click.Context,
    *,
    directory: Path | None,
    port: int,
    properties: tuple[str, ...],
    foreground: bool,
    form: Format,
) -> None:
    """Start it and wait until it answers. The first start downloads about 85 MB.

    It takes the ports it had last, if they are free. One that runs already is left as it is; if
    it was started with other options than those given now, that is an error.
    """
    from orderly.testing import daemon  # noqa: PLC0415  the other commands need none of it
    from orderly.testing.daemon_state import find  # noqa: PLC0415
    from orderly.testing.jars import fetch_jars  # noqa: PLC0415
    from orderly.testing.java import find_java  # noqa: PLC0415

    extra = pairs("--property", properties)
    running = find()
    if running is not None:
        _refuse_other(running, directory, port, extra)
        _show_running(ctx, running, "runs already", form)
        return
    find_java()
    with download_progress() as progress:
        fetch_jars(progress=progress)
    where = directory or daemon.default_directory()
    if foreground:
        daemon.serve(where, port, extra)
        return
    arguments = ["--directory", str(where), "--port", str(port)]
    for text in properties:
        arguments += ["--property", text]
    _show_running(ctx, daemon.launch(arguments), "started", form)


@broker.command(epilog=STOP)
def stop() -> None:
    """Stop it and wait until it is gone; its data stays."""
    from orderly.testing import daemon  # noqa: PLC0415
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find()
    if running is None:
        click.echo("no broker runs")
        return
    daemon.stop(running)
    click.echo(f"stopped; data and logs are in {running.directory}")


@broker.command(epilog=STATUS)
@format_options()
@click.pass_context
def status(ctx: click.Context, *, form: Format) -> int:
    """Say whether it runs, and where."""
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find()
    if running is None:
        if form.for_reader:
            click.echo("no broker runs; `orderly broker start` starts one")
        else:
            show(CommandOutput.of(_COLUMNS, (), {"running": False}), form, settings_of(ctx))
        return 1
    _show_running(ctx, running, "runs", form)
    return 0


@broker.command(epilog=LOGS)
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many of the last lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@click.argument("which", type=click.Choice(_LOGS), default=_LOGS[0])
def logs(lines: int, follow: bool, which: str) -> None:
    """Show a log of the running broker, or of the one that ran last."""
    from orderly.testing.daemon import default_directory  # noqa: PLC0415
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find()
    path = Path(running.directory if running else default_directory()) / which
    if not path.is_file():
        raise EmbeddedBrokerError(f"{path} does not exist; no broker has run there")
    with path.open(errors="replace") as log:
        for line in log.readlines()[-lines:]:
            click.echo(line, nl=False)
        with contextlib.suppress(KeyboardInterrupt):  # which is how one stops
            while follow:
                line = log.readline()
                if line:
                    click.echo(line, nl=False)
                else:
                    time.sleep(0.2)


@broker.command(epilog=FAKE)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The name server's port. Default: a free one.",
)
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="NAME:QUEUES",
    help="Created at the start; may be given again.",
)
@format_options()
@click.pass_context
def fake(ctx: click.Context, *, port: int, topics: tuple[str, ...], form: Format) -> None:
    """Run a fake broker here, until Ctrl-C: no Java, ready at once, all in memory."""
    from orderly.testing import FakeBroker  # noqa: PLC0415  the other commands need none of it

    wanted = dict(_topic(text) for text in topics)
    # Blocked before the first thread starts, so that whichever thread is up, none is ended by it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    with FakeBroker(namesrv_port=port) as running:
        for name, queues in wanted.items():
            running.create_topic(name, queues)
        if form.for_reader:
            click.echo(f"fake broker: name server {running.namesrv}; Ctrl-C ends it")
            click.echo(f"export ORDERLY_NAMESRV={running.namesrv}")
        else:
            fields = {"namesrv": running.namesrv, "topics": wanted}
            show(CommandOutput.of((Column("namesrv"),), [fields], fields), form, settings_of(ctx))
        signal.sigwait(_ENDS)


def _topic(text: str) -> tuple[str, int]:
    name, colon, queues = text.rpartition(":")
    if not colon or not queues.isdecimal():
        raise ConfigError(f"--topic takes NAME:QUEUES, as orders:8, not {text!r}")
    return name, int(queues)


@contextlib.contextmanager
def download_progress() -> Iterator[Callable[[int, int], None] | None]:
    """Give the function that draws the download of the jars on stderr; None where nobody looks."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console  # noqa: PLC0415  imported only to draw
    from rich.progress import DownloadColumn, Progress, TransferSpeedColumn  # noqa: PLC0415

    columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("RocketMQ 5.5.0", total=None)
        yield lambda present, total: bar.update(task, completed=present, total=total)


def _refuse_other(
    running: Daemon, directory: Path | None, port: int, properties: dict[str, str]
) -> None:
    other = []
    if port and not running.namesrv.endswith(f":{port}"):
        other.append(f"--port {port}")
    if directory is not None and directory.resolve() != Path(running.directory).resolve():
        other.append(f"--directory {directory}")
    for name, value in properties.items():
        if running.properties.get(name) != value:
            other.append(f"--property {name}={value}")
    if other:
        raise ConfigError(
            f"a broker runs already (name server {running.namesrv}, in {running.directory}),"
            f" without {', '.join(other)}; `orderly broker stop` stops it, then start it anew"
        )


_COLUMNS = tuple(map(Column, ("namesrv", "broker", "pid", "directory", "started_at")))


def _show_running(ctx: click.Context, running: Daemon, what: str, form: Format) -> None:
    if not form.for_reader:
        fields = asdict(running)
        show(
            CommandOutput.of(_COLUMNS, [fields], {"running": True, **fields}),
            form,
            settings_of(ctx),
        )
        return
    click.echo(f"{what}: name server {running.namesrv}, broker {running.broker}")
    click.echo(f"process {running.pid}, since {running.started_at}, in {running.directory}")
    click.echo(f"export ORDERLY_NAMESRV={running.namesrv}")
