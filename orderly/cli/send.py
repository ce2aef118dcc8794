"""`orderly send`: messages from the command line, a file or standard input, in order."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import click

from orderly.cli.command import Command
from orderly.cli.pairs import pairs
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.config import ProducerConfig
from orderly.errors import ConfigError
from orderly.model import Message, SendResult
from orderly.selectors.layout import layout_of

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.producer import OrderlyProducer

HEADINGS = ("topic", "broker", "queue", "offset", "message id", "status")
IN_FLIGHT = 1000  # results awaited at most, so that a failure is told soon
EXAMPLES = """\b
Examples:
  orderly send orders "created" --key order-17 --tag status
  seq 1000 | orderly send orders --lines --key order-17
"""


@click.command(cls=Command, epilog=EXAMPLES)
@topic_argument
@click.argument("body", required=False)
@click.option("-k", "--key", metavar="KEY", help="Sharding key: messages of one key stay in order.")
@click.option("--tag", metavar="TAG", help="For the consumers' filter.")
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
    help="Read the body from a file (with --lines: the bodies).",
)
@click.option("--lines", is_flag=True, help="One message per line of the file or of stdin.")
@click.option(
    "--count",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Send each body N times.",
)
@output_option
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
    count: int,
    output: str,
) -> None:
    """Send BODY (`-` or nothing: standard input) to TOPIC.

    Prints for each message where the broker stored it: topic, broker, queue, offset, message id.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    if key == "":
        raise click.UsageError("--key is empty: give a key, or leave --key out")
    source = _not_empty(_bodies(body, file, lines=lines), lines=lines)
    named = pairs("--property", properties)
    messages = (
        Message(topic, text, sharding_key=key, tags=tag, properties=named)
        for text in source
        for _ in range(count)
    )
    with settings.client() as client, _producer(client, topic) as producer:
        results = in_order(producer.submit(message) for message in messages)
        for line in map(_as_json, results) if output == "json" else _as_table(results):
            click.echo(line)


def _producer(client: Client, topic: str) -> OrderlyProducer:
    """A producer pinned to the topic's present queues: a change while it sends is refused."""
    from orderly.producer import OrderlyProducer  # noqa: PLC0415  `--help` needs no sockets

    pin = str(layout_of(client.routes.get(topic)))
    return OrderlyProducer(client=client, config=ProducerConfig(layout=pin))


def in_order(futures: Iterable[Future[SendResult]]) -> Iterator[SendResult]:
    """Results in the order of sending, with at most `IN_FLIGHT` awaited."""
    waiting: deque[Future[SendResult]] = deque()
    for future in futures:
        waiting.append(future)
        while waiting and (len(waiting) >= IN_FLIGHT or waiting[0].done()):
            yield waiting.popleft().result()
    for future in waiting:
        yield future.result()


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


def _lines(file: Path | None) -> Iterator[bytes]:
    if file is None:
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
        return
    with file.open("rb") as stream:
        yield from (line.rstrip(b"\r\n") for line in stream)


def _as_json(result: SendResult) -> str:
    names = (heading.replace(" ", "_") for heading in HEADINGS)
    return json.dumps(dict(zip(names, _cells(result), strict=True)))


def _as_table(results: Iterable[SendResult]) -> Iterator[str]:
    """Lines as they come: the first result decides how wide the columns are."""
    widths: list[int] = []
    for result in results:
        cells = _cells(result)
        if not widths:
            widths = [max(len(h), len(str(c))) for h, c in zip(HEADINGS, cells, strict=True)]
            yield _line([heading.upper() for heading in HEADINGS], cells, widths)
        yield _line(cells, cells, widths)


def _line(shown: Sequence[str | int], kinds: Sequence[str | int], widths: Sequence[int]) -> str:
    """Aligned columns; those whose `kinds` are numbers to the right."""
    return "  ".join(
        str(cell).rjust(width) if isinstance(kind, int) else str(cell).ljust(width)
        for cell, kind, width in zip(shown, kinds, widths, strict=True)
    ).rstrip()


def _cells(result: SendResult) -> tuple[str | int, ...]:
    queue = result.queue
    return (
        queue.topic,
        queue.broker_name,
        queue.queue_id,
        result.queue_offset,
        result.message_id,
        result.status,
    )
