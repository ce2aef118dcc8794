"""`orderly bench run | send | consume`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orderly.bench.plan import ConsumePlan, SendPlan, too_much
from orderly.bench.verdict import busy_machine
from orderly.cli import NOT_MEASURED
from orderly.cli.bench.document import document
from orderly.cli.bench.options import Place, consumed_options, place_options, sent_options
from orderly.cli.bench.tables import tables_of, verdict_lines
from orderly.cli.command import Command
from orderly.cli.output import print_json, print_table
from orderly.cli.progress import Progress
from orderly.cli.settings import common_options, output_option, settings_of

if TYPE_CHECKING:
    from orderly.bench.run import Bench, Outcome

_BROKEN = 1
EXAMPLES = """\b
Examples:
  orderly bench                                  # 100000 messages there, and back
  orderly bench send --mode sync --threads 4 --duration 30s
  orderly bench consume --order key --handler-ms 5 --concurrency 100
  orderly bench --rate 1000 -o json              # both at once: how long until the handler?
"""


@click.command(cls=Command, epilog=EXAMPLES)
@sent_options
@consumed_options
@place_options
@output_option
@common_options
@click.pass_context
def run(ctx: click.Context, /, **asked: Any) -> int:
    """Send, then consume what was sent; with --rate both at once.

    The handler checks the order of every key. Topic and group are made for it, and taken away in
    the end.
    """
    return _measure(ctx, "both", **asked)


@click.command(cls=Command, epilog=EXAMPLES)
@sent_options
@place_options
@output_option
@common_options
@click.pass_context
def send(ctx: click.Context, /, **asked: Any) -> int:
    """Only send, into a topic that is made for it and taken away in the end."""
    return _measure(ctx, "sends", consume_plan=ConsumePlan(), **asked)


@click.command(cls=Command, epilog=EXAMPLES)
@sent_options
@consumed_options
@place_options
@output_option
@common_options
@click.pass_context
def consume(ctx: click.Context, /, **asked: Any) -> int:
    """Only consume: a backlog that is made before, or with --topic what is in a topic of yours.

    The group is a new one in any case: your groups and their offsets are not touched.
    """
    return _measure(ctx, "consumes", **asked)


def _measure(
    ctx: click.Context,
    what: str,
    *,
    send_plan: SendPlan,
    consume_plan: ConsumePlan,
    place: Place,
    output: str,
) -> int:
    from orderly.bench.run import Bench, Outcome, without_rate  # noqa: PLC0415  `--help` is quick
    from orderly.bench.scratch import new_names  # noqa: PLC0415

    settings = settings_of(ctx)
    sends = not (what == "consumes" and place.topic)
    _refuse(ctx, what, send_plan if sends else None, place)
    settings.topic(place.topic)  # or no broker takes it for one
    bench = Bench(
        config=settings.client_config(),
        names=new_names(place.topic),
        queues=place.queues,
        send=without_rate(send_plan) if what == "consumes" else send_plan,
        consume=consume_plan,
        tell=partial(click.echo, err=True),
        progress=_progress,
        cluster=place.cluster,
        keep=place.keep,
    )
    _announce(bench, what, sends=sends)
    outcome = Outcome()
    finished = False
    with _one_interruption():
        try:
            with bench.prepared(outcome):
                getattr(bench, what)(outcome)
            finished = not outcome.interrupted
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
        finally:
            _print(bench, outcome, output)
    return _code(outcome) if finished else NOT_MEASURED


def _refuse(ctx: click.Context, what: str, send: SendPlan | None, place: Place) -> None:
    if place.topic is not None and send is not None and not place.into_it:
        raise click.UsageError(
            f"this sends into {place.topic}, and all its consumers get the messages: give"
            " --send-into-it if that is meant, or leave --topic out",
            ctx,
        )
    if what == "consumes" and send is not None and send.rate is not None:
        raise click.UsageError("--rate is for `run` and `send`: a backlog has none", ctx)
    much = too_much(send, place.queues if place.topic is None else 1)
    if much and not place.yes:
        raise click.UsageError(f"that is much ({much}): give --yes if it is meant", ctx)


def _announce(bench: Bench, what: str, *, sends: bool) -> None:
    names = bench.names
    made = (
        f"makes topic {names.topic} with {bench.queues} queues on each broker"
        if names.own_topic
        else f"takes topic {names.topic}"
    )
    group = "" if what == "sends" else f" and group {names.group}"
    click.echo(f"{made}{group} at {bench.config.namesrv}", err=True)
    if sends:
        click.echo(f"sends {bench.send.text()}", err=True)
    if what != "sends":
        click.echo(f"consumes {bench.consume.text()}", err=True)


def _progress(what: str, total: int | None) -> Callable[[int], None]:
    return Progress(what, total).reached


@contextmanager
def _one_interruption() -> Iterator[None]:
    """^C and SIGTERM end the measuring; once that is so, they do not end the taking away."""
    told: list[int] = []

    def interrupted(number: int, _frame: object) -> None:
        told.append(number)
        if len(told) == 1:
            raise KeyboardInterrupt
        click.echo("taking away what was made; a moment", err=True)

    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, interrupted) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _print(bench: Bench, outcome: Outcome, output: str) -> None:
    """The figures so far, and what stays at the brokers."""
    if outcome.spans and output == "json":
        plans = bench.send, bench.consume
        print_json(document(bench.names, plans, outcome.spans, outcome.left))
    elif outcome.spans:
        for table in tables_of(outcome.spans):
            print_table(table)
            click.echo()
        click.echo("\n".join(verdict_lines(outcome.spans)))
    crowded = max(outcome.spans.values(), key=lambda span: span.load, default=None)
    if crowded is not None and busy_machine(crowded):
        click.echo(f"note: {busy_machine(crowded)}", err=True)
    if bench.keep:
        click.echo(f"kept: topic {bench.names.topic}, group {bench.names.group}", err=True)
    for line in outcome.left or ():
        click.echo(f"left behind: {line}", err=True)
    if outcome.left:
        click.echo("later: orderly bench clean", err=True)


def _code(outcome: Outcome) -> int:
    spans = outcome.spans.values()
    if not spans or any(span.ended == "stalled" for span in spans):
        return NOT_MEASURED
    failed = any(span.sent is not None and span.sent.failed for span in spans)
    wrong = any(
        span.consumed is not None
        and (span.consumed.inversions or (span.consumed.lost and span.ended == "done"))
        for span in spans
    )
    return _BROKEN if failed or wrong else 0
