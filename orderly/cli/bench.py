"""`orderly bench`: the figures of a measurement, as a table or JSON."""

from __future__ import annotations

import math
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.options import Finite
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import ProgressLine, say
from orderly.compiled import COMPILED
from orderly.config import ConsumerConfig
from orderly.monitoring.texts import Column, ColumnKind
from orderly.signals import Noted, heard

if TYPE_CHECKING:
    from orderly.bench import Consuming, Figures, Sending

SCHEMA = "orderly.bench/v1"
_BROKEN = 1
_COUNT = 100_000  # messages
_RATE_SECONDS = 10.0  # that a rate is kept if nothing says how many messages
EXAMPLES = """\b
Examples:
  orderly bench                                  # 100000 messages there, and back
  orderly bench --send-only --sync -n 20000
  orderly bench --order key --handler-ms 5 --concurrency 100 --async
  orderly bench --rate 1000 -o json              # both at once: how long until the handler?
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(1, 10_000_000),
    metavar="N",
    help=f"Messages to send. Default: {_COUNT}; with --rate as many as in {_RATE_SECONDS:g} s.",
)
@click.option(
    "--size",
    type=click.IntRange(64, 1_000_000),
    default=256,
    show_default=True,
    metavar="BYTES",
    help="Size of a message body.",
)
@click.option(
    "--keys",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="How many sharding keys to use, in turn.",
)
@click.option(
    "--sync", is_flag=True, help="Wait for each send. Without it, sends go out in batches."
)
@click.option(
    "--rate",
    type=Finite(0, min_open=True),
    metavar="N",
    help="Send N messages a second and consume them at once. Default: send as fast as possible,"
    " then consume.",
)
@click.option("--send-only", is_flag=True, help="Send, and do not consume.")
@click.option(
    "--order",
    type=click.Choice(["queue", "key"]),
    default="queue",
    show_default=True,
    help="What keeps order: each queue, or each key.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1),
    default=ConsumerConfig().concurrency,
    show_default=True,
    metavar="N",
    help="At most N handler calls at once.",
)
@click.option(
    "--handler-ms",
    type=Finite(0, 10_000),
    default=0.0,
    show_default=True,
    metavar="MS",
    help="Simulate handler I/O of this duration.",
)
@click.option(
    "--async", "coroutines", is_flag=True, help="Use an async handler instead of threads."
)
@click.option(
    "--queues",
    type=click.IntRange(1, 256),
    default=8,
    show_default=True,
    metavar="N",
    help="Queues of the benchmark's topic, on each broker.",
)
@click.option("--cluster", metavar="NAME", help="The cluster, if there are several.")
@format_options()
@common_options
@click.pass_context
def bench(ctx: click.Context, /, *, form: Format, **given: Any) -> int:
    """Measure your cluster: send messages, then consume them; with --rate both at once.

    The handler checks the order of every key. The command creates a topic and a group
    (orderly-bench-…) and deletes them at the end, also after Ctrl-C. By default it sends 26 MB.
    """
    from orderly.bench import Consuming, Sending, named, scratch  # noqa: PLC0415  `--help` is quick

    settings, left = settings_of(ctx), list[str]()
    size, keys, rate, queues = (given[name] for name in ("size", "keys", "rate", "queues"))
    count = given["count"] or math.ceil((rate or 0) * _RATE_SECONDS) or _COUNT
    consuming: Consuming | None = None
    with settings.client() as client, settings.client() as other, heard() as ended_by:
        name = named(client, secrets.randbits(32))
        where = f"{client.config.namesrv}, {queues} queues on each broker"
        say(f"compiled: {'yes' if COMPILED else 'no'}")
        say(f"makes topic and group {name} at {where}")
        say(f"sends {count} messages of {size} bytes ({count * size / 1e6:.1f} MB)")
        with scratch(client, name, queues, given["cluster"], left):
            sending = Sending(client, name, size=size, keys=keys, rate=rate, sync=given["sync"])
            if not given["send_only"]:
                consuming = Consuming(
                    other,
                    name,
                    _config(given),
                    handler_ms=given["handler_ms"],
                    coroutines=given["coroutines"],
                    delays=rate is not None,
                )
            done = _measured(
                sending, consuming, count, together=rate is not None, ended_by=ended_by
            )
    show(_answer(name, sending.figures, consuming, left), form, settings)
    for line in left:
        say(f"left behind: {line}")
    if not done:
        say("not measured to the end")
        return NOT_MEASURED
    wrong = consuming is not None and consuming.order.inversions
    return _BROKEN if wrong or sending.figures.failed else 0


def _config(given: dict[str, Any]) -> ConsumerConfig:
    chosen = {name: given[name] for name in ("order", "concurrency")}
    return ConsumerConfig(consume_from="first", **chosen)


def _measured(
    sending: Sending, consuming: Consuming | None, count: int, *, together: bool, ended_by: Noted
) -> bool:
    """Send and consume; False: it ended before all had come."""
    send = partial(sending.run, count, ProgressLine("sent", count).reached, ended_by)
    if consuming is None:
        send()
        return not ended_by()
    if not together:
        send()
    with consuming.running():
        if together:
            send()
        sent = sending.figures.messages
        came = consuming.wait(sent, ProgressLine("consumed", count).reached, ended_by)
    return came and not ended_by()


def _answer(
    name: str, sent: Figures, consuming: Consuming | None, left: list[str]
) -> CommandOutput:
    """The figures so far, and what stays at the brokers."""
    sides: dict[str, dict[str, Any] | None] = {"send": _side(sent), "consume": None}
    if consuming is not None:
        order = consuming.order
        verdict = {"out_of_order": order.inversions, "repeats": order.repeats}
        missing = max(0, sent.messages - order.reached)
        sides["consume"] = _side(consuming.figures) | verdict | {"missing": missing}
    about = {"schema": SCHEMA, "name": name, "compiled": COMPILED}
    document = about | sides | {"left_behind": left}
    found = {name: side for name, side in sides.items() if side is not None}
    fields = dict.fromkeys(field for side in found.values() for field in side)
    rows = [
        (_words(field), *(_cell(side.get(field)) for side in found.values())) for field in fields
    ]
    columns = (Column("figure"), *(Column(name, ColumnKind.NUMBER) for name in found))
    return CommandOutput(columns, rows, lambda: document)


def _side(figures: Figures) -> dict[str, Any]:
    """What one side did."""
    messages, seconds = figures.messages, figures.seconds
    return {
        "messages": messages,
        "failed_messages": dict(figures.failed),
        "seconds": seconds,
        "messages_per_second": messages / seconds,
        "megabytes_per_second": figures.bytes / seconds / 1e6,
        "latency_ms_p50": figures.percentile(50),
        "latency_ms_p99": figures.percentile(99),
        "cpu_seconds": figures.cpu,
        "cpu_seconds_per_100k": figures.cpu / messages * 1e5 if messages else None,
    }


def _words(field: str) -> str:
    return field.replace("_per_", "/").replace("_", " ")


def _cell(value: Any) -> str | int | None:
    if isinstance(value, dict):
        return ", ".join(f"{kind}: {count}" for kind, count in sorted(value.items())) or "none"
    return f"{value:,.2f}" if isinstance(value, float) else value
