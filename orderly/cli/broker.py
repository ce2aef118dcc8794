"""`orderly broker`: a local RocketMQ broker that stays until it is stopped, or a fake one."""

from __future__ import annotations

import contextlib
import re
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
from orderly.cli.terminal import printable, tell
from orderly.errors import ConfigError, EmbeddedBrokerError
from orderly.foreign_text import shell_word
from orderly.monitoring.texts import Column

if TYPE_CHECKING:
    from orderly.testing.daemon_state import Daemon

_ENDS = (signal.SIGINT, signal.SIGTERM)
_LOGS = ("broker.log", "namesrv.log", "broker.out", "namesrv.out")


START = """\b
Examples:
  orderly broker start
  orderly broker start --port 9876 --directory ./broker
  orderly broker start --name shop --port 9877
  orderly broker start --conf enablePropertyFilter=true --foreground
"""
STOP = """\b
Examples:
  orderly broker stop
  orderly broker stop --name shop
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
  orderly broker fake orders:8
  orderly broker fake orders:8 payments:4 --port 9876
"""


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


def _named(_context: click.Context, _option: click.Parameter, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise click.BadParameter("up to 40 letters, digits, '-' and '_'")
    return name


name_option = click.option(
    "--name",
    default="default",
    show_default=True,
    metavar="NAME",
    callback=_named,
    help="Which local broker. Each has its own ports and data.",
)


@click.group(cls=Group)
@common_options
def broker() -> None:
    """Local RocketMQ 5.5.0 brokers on 127.0.0.1, for trials and tests."""


@broker.command(epilog=START)
@name_option
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
    "--conf",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the broker; may be given again.",
)
@click.option("--foreground", is_flag=True, help="Run until Ctrl-C, not in the background.")
@format_options()
@click.pass_context
def start(
    ctx: click.Context,
    *,
    name: str,
    directory: Path | None,
    port: int,
    properties: tuple[str, ...],
    foreground: bool,
    form: Format,
) -> None:
    """Start a local broker and wait until it answers. The first start downloads about 85 MB.

    It reuses its last ports if they are free. If a broker of this name already runs, the command
    leaves it alone and shows in which folder it was started; if its options differ, that is an
    error. Commands without a name server use the broker "default".
    """
    from orderly.testing import daemon  # noqa: PLC0415  the other commands need none of it
    from orderly.testing.daemon_state import find  # noqa: PLC0415
    from orderly.testing.jars import fetch_jars  # noqa: PLC0415
    from orderly.testing.java import find_java  # noqa: PLC0415

    extra = pairs("--conf", properties)
    running = find(name)
    if running is not None:
        _refuse_other(running, directory, port, extra)
        _show_running(ctx, running, "already runs", form)
        return
    find_java()
    with download_progress() as progress:
        fetch_jars(progress=progress)
    where = directory or daemon.default_directory(name)
    if foreground:
        daemon.serve(name, where, port, extra)
        return
    daemon.ports_to_use(name, port)  # so that a port that is taken is said at once
    arguments = ["--directory", str(where), "--port", str(port)]
    for text in properties:
        arguments += ["--property", text]
    _show_running(ctx, daemon.launch(name, arguments), "started", form)


@broker.command(epilog=STOP)
@name_option
def stop(name: str) -> None:
    """Stop a local broker and wait until it is gone. Its data stays."""
    from orderly.testing import daemon  # noqa: PLC0415
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find(name)
    if running is None:
        tell(_none_runs(name))
        return
    daemon.stop(running)
    tell(f"stopped; data and logs are in {running.directory}")


@broker.command(epilog=STATUS)
@name_option
@format_options()
@click.pass_context
def status(ctx: click.Context, *, name: str, form: Format) -> int:
    """Show whether a local broker runs, where, and in which folder it was started."""
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find(name)
    if running is None:
        if form.for_reader:
            tell(_none_runs(name))
        else:
            show(CommandOutput.of(_COLUMNS, (), {"running": False}), form, settings_of(ctx))
        return 1
    _show_running(ctx, running, "runs", form)
    return 0


@broker.command(epilog=LOGS)
@name_option
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="N",
    help="Only the last N lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new lines until Ctrl-C.")
@click.argument("which", metavar="[LOG]", type=click.Choice(_LOGS), default=_LOGS[0])
def logs(name: str, limit: int, follow: bool, which: str) -> None:
    """Show a log of the running broker, or of its last run."""
    from orderly.testing.daemon import default_directory  # noqa: PLC0415
    from orderly.testing.daemon_state import find  # noqa: PLC0415

    running = find(name)
    path = Path(running.directory if running else default_directory(name)) / which
    if not path.is_file():
        raise EmbeddedBrokerError(f"{path} does not exist; no broker has run there")
    with path.open(errors="replace") as log:
        for line in log.readlines()[-limit:]:
            _print_part(line)
        with contextlib.suppress(KeyboardInterrupt):  # which is how one stops
            while follow:
                line = log.readline()
                if line:
                    _print_part(line)
                else:
                    time.sleep(0.2)


def _print_part(line: str) -> None:
    """Print a line of a log, or what is there of it by now; clients choose names that are in it."""
    end = line.removesuffix("\n")
    click.echo(printable(end.expandtabs()), nl=line != end)


@broker.command(epilog=FAKE)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="The name server's port. Default: a free one.",
)
@click.argument("topics", nargs=-1, metavar="[TOPIC:QUEUES]...")
@format_options()
@click.pass_context
def fake(ctx: click.Context, *, port: int, topics: tuple[str, ...], form: Format) -> None:
    """Run a fake broker until Ctrl-C: no Java, ready at once, everything in memory.

    TOPIC:QUEUES creates a topic: orders:8 is `orders` with 8 queues.
    """
    from orderly.testing import FakeBroker  # noqa: PLC0415  the other commands need none of it

    wanted = dict(_topic(text) for text in topics)
    # Blocked before the first thread starts, so that whichever thread is up, none is ended by it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    with FakeBroker(namesrv_port=port) as running:
        for name, queues in wanted.items():
            running.create_topic(name, queues)
        if form.for_reader:
            tell(f"fake broker: name server {running.namesrv}; Ctrl-C ends it")
            tell(f"export ORDERLY_NAMESRV={running.namesrv}")
        else:
            fields = {"namesrv": running.namesrv, "topics": wanted}
            show(CommandOutput.of((Column("namesrv"),), [fields], fields), form, settings_of(ctx))
        signal.sigwait(_ENDS)


def _topic(text: str) -> tuple[str, int]:
    name, colon, queues = text.rpartition(":")
    if not colon or not queues.isdecimal():
        raise ConfigError(f"write a topic as TOPIC:QUEUES, such as orders:8, not {text!r}")
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


def _none_runs(name: str) -> str:
    """Say that it does not run, and which others do."""
    from orderly.testing.daemon_state import DEFAULT, find_all  # noqa: PLC0415

    option = "" if name == DEFAULT else f" --name {name}"
    others = [f"{each.name} ({each.namesrv})" for each in find_all()]
    running = f"; there is {', '.join(others)}" if others else ""
    return f"no broker {name!r} runs{running}; `orderly broker start{option}` starts it"


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
            other.append(f"--conf {name}={value}")
    if other:
        raise ConfigError(
            f"the broker {running.name!r} already runs, without {', '.join(other)}: name server"
            f" {running.namesrv}, data in {running.directory}, started in"
            f" {running.started_in or 'an unknown folder'}; start another broker with `--name"
            f" NAME`, or stop that one: `orderly broker stop --name {shell_word(running.name)}`"
        )


_COLUMNS = tuple(
    map(Column, ("name", "namesrv", "broker", "pid", "directory", "started_in", "started_at"))
)


def _show_running(ctx: click.Context, running: Daemon, what: str, form: Format) -> None:
    if not form.for_reader:
        fields = asdict(running)
        show(
            CommandOutput.of(_COLUMNS, [fields], {"running": True, **fields}),
            form,
            settings_of(ctx),
        )
        return
    server = f"name server {running.namesrv}, broker {running.broker}"
    tell(f"{what}: {running.name}, {server}")
    tell(f"process {running.pid}, since {running.started_at}, data in {running.directory}")
    if running.started_in not in {"", str(Path.cwd())}:
        tell(
            f"started in {running.started_in}: its topics are those of that folder's programs;"
            " for a broker of your own, `orderly broker start --name NAME`"
        )
    tell(f"export ORDERLY_NAMESRV={running.namesrv}")
