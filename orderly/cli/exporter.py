"""`orderly exporter`: scans a cluster again and again, and serves what it knows over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import Duration, address
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, filter_options
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import say
from orderly.monitoring.backlog_json import Detail
from orderly.monitoring.exporter import LostCounter, ServedSnapshot, Views, pushing
from orderly.signals import LOOK, heard
from orderly.small_http import Server, is_loopback

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import Snapshot
    from orderly.monitoring.collecting.monitor import Monitor
    from orderly.monitoring.collecting.selection import Selection

DEFAULT_LISTEN = "127.0.0.1:9788"

EXAMPLES = """\b
Examples:
  orderly exporter
  orderly exporter --listen 0.0.0.0:9788 --redact-keys hash -g 'ship*'
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Where to serve. Port 0: any free port.",
)
@click.option(
    "--interval",
    type=Duration(1),
    default="15s",
    show_default=True,
    help="Time from the start of one scan to the start of the next.",
)
@click.option(
    "--granularity",
    type=click.Choice([detail.value for detail in Detail]),
    default=Detail.BAD_QUEUES.value,
    show_default=True,
    help="How detailed the metrics are. bad-queues: groups, topics, and queues with a problem, the"
    " worst first, up to 5,000 series.",
)
@redact_option
@click.option(
    "--otlp", is_flag=True, help="Also push the metrics by OTLP (set OTEL_EXPORTER_OTLP_*)."
)
@filter_options
@common_options
@click.pass_context
def exporter(
    ctx: click.Context,
    *,
    listen: str,
    interval: float,
    granularity: str,
    redact_keys: str | None,
    otlp: bool,
    names: Names,
) -> None:
    """Serve metrics, JSON and a page about the backlog of all groups.

    It answers GET /metrics (Prometheus, OpenMetrics), / (a page), /api/v1/backlog,
    /api/v1/history, /healthz and /readyz. Answers come from the last scan: a request never makes
    the exporter ask the brokers.

    SIGTERM or Ctrl-C ends it cleanly; a second signal ends it at once. For the metrics of a single
    scan, run `orderly backlog list -o prometheus`.
    """
    settings, detail = settings_of(ctx), Detail(granularity)
    host, port = address(listen, "--listen", DEFAULT_LISTEN)
    selection = names.selection(settings)
    with settings.client() as client:
        totals = LostCounter()

        def take(snapshot: Snapshot) -> None:
            totals.take(redacted(snapshot, redact_keys))

        monitor = _monitor(client, selection, interval, take)
        _serve(monitor, ServedSnapshot(monitor, totals, detail), (host, port), otlp=otlp)


def _monitor(
    client: Client, selection: Selection, interval: float, taken: Callable[[Snapshot], None]
) -> Monitor:
    """A monitor with all details; enter it to start it."""
    from orderly.monitoring.backlog.evaluate import Backlog  # noqa: PLC0415 - `--help` is quick
    from orderly.monitoring.collecting.details import Details  # noqa: PLC0415
    from orderly.monitoring.collecting.monitor import Monitor  # noqa: PLC0415
    from orderly.monitoring.collecting.scan import Collector  # noqa: PLC0415

    collector = Collector(client, selection)
    details = Details(collector.pipeline, asked=selection.named_groups)
    return Monitor(collector, Backlog(), details, interval=interval, taken=taken)


def _serve(
    monitor: Monitor, exported: ServedSnapshot, where: tuple[str, int], *, otlp: bool
) -> None:
    """Scan and serve until a signal ends it."""
    host, port = where
    shown = f"[{host}]" if ":" in host else host
    if not is_loopback(host):
        say(
            f"warning: there is no password: anyone who can connect to {shown} can read the names"
            " of groups, topics and members, and message keys (--redact-keys hash hides the keys)",
        )
    with heard() as ended_by, ExitStack() as running:
        if otlp:
            running.enter_context(pushing(exported))
        server = running.enter_context(Server(host, port, Views(exported).answer, "exporter"))
        running.enter_context(monitor)
        say(f"serving http://{shown}:{server.port}/")
        while ended_by() is None:
            time.sleep(LOOK)
