"""`orderly send`: messages from the command line, a file or standard input, in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import pairs, unescaped
from orderly.cli.output import Format, format_options, show_each
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, settings_of
from orderly.config import ProducerConfig
from orderly.errors import ConfigError
from orderly.message import Message
from orderly.model import SendResult
from orderly.monitoring.texts import Column, ColumnKind
from orderly.selectors.layout import layout_of

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.producer import OrderlyProducer

_COLUMNS = (
    Column("topic"),
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("offset", ColumnKind.NUMBER),
    Column("message id"),
    Column("status"),
)
IN_FLIGHT = 1000  # results awaited at most, so that a failure is reported soon
EXAMPLES = """\b
Examples:
  orderly send orders "created" --key order-17 --tag status
  seq 1000 | orderly send orders --lines --key order-17
  printf 'order-17:paid\\norder-18:paid\\n' | orderly send orders --lines -K:
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@topic_argument
@click.argument("body", required=False)
@click.option("-k", "--key", metavar="KEY", help="Sharding key: messages of one key stay in order.")
@click.option("--tag", metavar="TAG", help="The message's tag: consumers can filter by it.")
@click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property; may be given again.",
)
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the body from a file; with --lines, one body per line.",
)
@click.option(
    "--lines", is_flag=True, help="Send each line of the file, or of stdin, as a message."
)
@click.option(
    "-K",
    "--key-delimiter",
    metavar="TEXT",
    help="With --lines: what separates key and body in each line, as in -K: or -K '\\t'.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Send each body N times.",
)
@format_options()
@common_options
@click.pass_context
def send(
    ctx: click.Context,
    *,
    topic: str,
    body: str | None,
    key: str | None,
    tag: str | None,
    properties: tuple[str, ...],
    file: Path | None,
    lines: bool,
    key_delimiter: str | None,
    repeat: int,
    form: Format,
) -> None:
    """Send BODY to TOPIC. Without BODY, or with `-`, it reads standard input.

    For each message it prints where the broker stored it: topic, broker, queue, offset, message id.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    if key == "":
        raise click.UsageError("--key is empty: give a key, or leave --key out")
    found = _bodies(body, file, lines=lines)
    keyed: Iterable[tuple[str | None, bytes]]
    if key_delimiter is None:
        keyed = ((key, text) for text in _not_empty(found, lines=lines))
    elif lines and key is None and key_delimiter:
        keyed = _keyed(found, unescaped(key_delimiter))
    else:
        raise click.UsageError("--key-delimiter goes with --lines, and without --key")
    named = pairs("--property", properties)
    messages = (
        Message(topic, text, sharding_key=of_key, tags=tag, properties=named)
        for of_key, text in keyed
        for _ in range(repeat)
    )
    with settings.client() as client, _producer(client, topic) as producer:
        results = in_order(producer.submit(message) for message in messages)
        show_each(_COLUMNS, map(_shown, results), form, settings)


def _producer(client: Client, topic: str) -> OrderlyProducer:
    """A producer pinned to the topic's present queues: a change while it sends is refused."""
    from orderly.producer import OrderlyProducer  # noqa: PLC0415  `--help` needs no sockets

    pin = str(layout_of(client.routes.get(topic)))
    return OrderlyProducer(client=client, config=ProducerConfig(layout=pin))


def in_order(
    futures: Iterable[Future[SendResult]], in_flight: int = IN_FLIGHT
) -> Iterator[SendResult]:
    """Results in the order of sending, with at most `in_flight` awaited.

    If the source fails, the results of what was sent before still come.
    """
    waiting: deque[Future[SendResult]] = deque()
    try:
        for future in futures:
            waiting.append(future)
            while waiting and (len(waiting) >= in_flight or waiting[0].done()):
                yield waiting.popleft().result()
    except ConfigError:
        yield from (future.result() for future in waiting)
        raise
    yield from (future.result() for future in waiting)


def _bodies(body: str | None, file: Path | None, *, lines: bool) -> Iterable[bytes]:
    if file is not None and body is not None:
        raise click.UsageError("give BODY or --file, not both")
    if lines and body not in (None, "-"):
        raise click.UsageError("--lines reads standard input or --file; leave BODY out")
    if lines:
        return _lines(file)
    if file is not None:
        return [file.read_bytes()]
    if body is None or body == "-":
        return [sys.stdin.buffer.read()]
    return [body.encode()]


def _not_empty(bodies: Iterable[bytes], *, lines: bool) -> Iterator[bytes]:
    for number, body in enumerate(bodies, start=1):
        if not body:
            what = f"line {number} is empty" if lines else "BODY is empty"
            raise ConfigError(f"{what}: a message needs a body of at least 1 byte")
        yield body


def _keyed(lines: Iterable[bytes], delimiter: str) -> Iterator[tuple[str, bytes]]:
    """Key and body of each line."""
    for number, line in enumerate(lines, start=1):
        key, found, body = line.partition(delimiter.encode())
        if not (found and key and body):
            missing = "no key" if found and not key else "no body" if found else f"no {delimiter!r}"
            raise ConfigError(f"line {number} has {missing}: it must be KEY{delimiter}BODY")
        yield key.decode(), body


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def _shown(result: SendResult) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields, for a row and for a document."""
    queue = result.queue
    fields = {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "offset": result.queue_offset,
        "message_id": result.message_id,
        "status": result.status,
    }
    return fields, fields
