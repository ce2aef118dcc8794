"""The options of `orderly bench`, gathered as what is sent and how it is consumed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from orderly.bench.plan import MANY_BYTES, MANY_MESSAGES, ConsumePlan, SendPlan
from orderly.cli.durations import Duration, Finite
from orderly.cli.gathering import gathered
from orderly.cli.selection import complete_topic
from orderly.config import ConsumerConfig, ProducerConfig

F = TypeVar("F", bound=Callable[..., Any])
_COUNT = 100_000  # messages
_RATE_SECONDS = 10.0  # that a rate is kept if nothing says how long
_SEND, _CONSUME = ProducerConfig(), ConsumerConfig()

_SENT = {
    "count": click.option(
        "-n",
        "--count",
        type=click.IntRange(1),
        metavar="N",
        help=f"Messages. Default: {_COUNT}, or with --rate those of {_RATE_SECONDS:g} s.",
    ),
    "duration": click.option(
        "--duration",
        type=Duration(0.1),
        metavar="DURATION",
        help="Instead of --count: how long, as in 30s or 5m.",
    ),
    "size": click.option(
        "--size",
        type=click.IntRange(1),
        default=256,
        show_default=True,
        metavar="BYTES",
        help="Of a body: hexadecimal digits by chance, which compress to a half.",
    ),
    "keys": click.option(
        "--keys",
        type=click.IntRange(1, 1_000_000),
        default=1000,
        show_default=True,
        metavar="N",
        help="How many sharding keys.",
    ),
    "skew": click.option(
        "--skew",
        type=Finite(0, 10),
        default=0.0,
        show_default=True,
        metavar="X",
        help="0: all keys alike; 1: the n-th key has 1/n of the first one's messages.",
    ),
    "threads": click.option(
        "--threads",
        type=click.IntRange(1),
        default=1,
        show_default=True,
        metavar="N",
        help="Threads that send, each with keys of its own.",
    ),
    "mode": click.option(
        "--mode",
        type=click.Choice(["submit", "sync"]),
        default="submit",
        show_default=True,
        help="By submit: futures, in batches; or sync: `send`, which waits for each answer.",
    ),
    "rate": click.option(
        "--rate",
        type=Finite(0, min_open=True),
        metavar="N",
        help="Messages a second. Default: as fast as it goes.",
    ),
    "batch_messages": click.option(
        "--batch-messages",
        type=click.IntRange(1),
        default=_SEND.batch_messages,
        show_default=True,
        metavar="N",
        help="The most messages of a batch of submit.",
    ),
    "batch_bytes": click.option(
        "--batch-bytes",
        type=click.IntRange(1),
        default=_SEND.batch_bytes,
        show_default=True,
        metavar="BYTES",
        help="The most bytes of it.",
    ),
    "linger": click.option(
        "--linger",
        type=Duration(),
        default=f"{_SEND.linger:g}",
        show_default=True,
        metavar="DURATION",
        help="How long the first message of a batch waits for more, as in 5ms.",
    ),
    "compress_above": click.option(
        "--compress-above",
        type=click.IntRange(0),
        default=_SEND.compress_above,
        show_default=True,
        metavar="BYTES",
        help="Compress larger bodies; 0: none.",
    ),
}
_CONSUMED = {
    "order": click.option(
        "--order",
        type=click.Choice(["queue", "key"]),
        default="queue",
        show_default=True,
        help="The unit of order: one message of it at a time.",
    ),
    "concurrency": click.option(
        "--concurrency",
        type=click.IntRange(1),
        default=_CONSUME.concurrency,
        show_default=True,
        metavar="N",
        help="The most calls of the handler at once.",
    ),
    "coroutines": click.option(
        "--async", "coroutines", is_flag=True, help="The handler is a coroutine, not on threads."
    ),
    "batch_size": click.option(
        "--batch-size",
        type=click.IntRange(1),
        default=_CONSUME.batch_size,
        show_default=True,
        metavar="N",
        help="The most messages of a call.",
    ),
    "pull_batch": click.option(
        "--pull-batch",
        type=click.IntRange(1),
        default=_CONSUME.pull_batch,
        show_default=True,
        metavar="N",
        help="The most messages of a pull.",
    ),
    "handler_ms": click.option(
        "--handler-ms",
        type=Finite(0),
        default=0.0,
        show_default=True,
        metavar="MS",
        help="The handler makes as if it waited for something so long.",
    ),
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where it is measured.

    Attributes:
        topic: the user's; None: one is made.
        into_it: whether messages may be sent into that.
        queues: of a topic that is made.
        cluster: for it.
        keep: whether it stays.
        yes: whether great amounts are meant.
    """

    topic: str | None
    into_it: bool
    queues: int
    cluster: str | None
    keep: bool
    yes: bool


_TOPIC = click.option(
    "-t", "--topic", metavar="TOPIC", shell_complete=complete_topic, help="A topic of yours."
)
_INTO_IT = click.option(
    "--send-into-it",
    "into_it",
    is_flag=True,
    help="With --topic: yes, send into it; those messages stay there, for all its consumers.",
)
_PLACE = (
    click.option(
        "--queues",
        type=click.IntRange(1, 1024),
        default=8,
        show_default=True,
        metavar="N",
        help="Of the topic that is made, on each broker.",
    ),
    click.option("--cluster", metavar="NAME", help="Where to make it, if there are several."),
    click.option("--keep", is_flag=True, help="Leave the topic and the group there."),
    click.option("-y", "--yes", is_flag=True, help="Also great amounts."),
)


def send_plan(**given: Any) -> SendPlan:
    """What --count and the rest say is sent."""
    count, seconds, rate = (given.pop(name) for name in ("count", "duration", "rate"))
    if count is not None and seconds is not None:
        raise click.UsageError("give --count or --duration, not both")
    size, sync = given["size"], given.pop("mode") == "sync"
    if rate and count is None:
        count = math.ceil(rate * (seconds or _RATE_SECONDS))
    elif count is None:
        count = _COUNT if seconds is None else max(1, min(MANY_MESSAGES, MANY_BYTES // size))
    names = ("batch_messages", "batch_bytes", "linger", "compress_above")
    config = ProducerConfig(**{name: given.pop(name) for name in names})
    return SendPlan(count=count, seconds=seconds, sync=sync, rate=rate, config=config, **given)


def consume_plan(**given: Any) -> ConsumePlan:
    """What --order and the rest say of the consumer."""
    own = {name: given.pop(name) for name in ("handler_ms", "coroutines")}
    return ConsumePlan(config=ConsumerConfig(consume_from="first", **given), **own)


def sent_options(command: F) -> F:
    """Add what is sent, as the argument `send`."""
    names = list(_SENT)
    make = lambda *values: send_plan(**dict(zip(names, values, strict=True)))  # noqa: E731
    return gathered(command, list(_SENT.values()), names, make, "send_plan")


def consumed_options(command: F) -> F:
    """Add how it is consumed, as the argument `consume`."""
    names = list(_CONSUMED)
    make = lambda *values: consume_plan(**dict(zip(names, values, strict=True)))  # noqa: E731
    return gathered(command, list(_CONSUMED.values()), names, make, "consume_plan")


def place_options(command: F) -> F:
    """Add where, as the argument `place`."""
    names = ("topic", "into_it", "queues", "cluster", "keep", "yes")
    return gathered(command, (_TOPIC, _INTO_IT, *_PLACE), names, Place, "place")
