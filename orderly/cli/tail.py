"""`orderly tail`: prints a topic's messages. How they are read is in `reader`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.options import EARLIEST, LATEST, Moment, Position, unescaped
from orderly.cli.output import Format, format_options, show_each
from orderly.cli.selection import queues_option, topic_argument
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import json_body, preview, printable
from orderly.model import ReceivedMessage
from orderly.monitoring.texts import Column, ColumnKind, iso_time
from orderly.protocol.properties import RESERVED

PREVIEW = 100  # characters of a body
EXAMPLES = """\b
Examples:
  orderly tail orders -n 10
  orderly tail orders --from latest --follow
  orderly tail orders --from 1h --until 50m --key order-17 -o json
  orderly tail orders --queue broker-a/3 --offset 1204 -n 1
  orderly tail orders --offset -5                        # the newest 5 of each queue
  orderly tail orders --format '%k:%s\\n' | orderly send copy --lines -K:

\b
What --format writes, as kcat does:
  %t topic   %p queue   %o offset   %k key    %s body   %S its bytes   %T time stored
  %h properties         %g tags     %i message id       %% a %
  \\n and \\t are a line end and a tab. Unprintable characters appear as escapes; -o json has them.
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@topic_argument
@click.option(
    "--from",
    "start",
    type=Moment(EARLIEST, LATEST),
    default=EARLIEST,
    show_default=True,
    metavar="earliest|latest|TIME",
    help="Where to start. A time is ISO 8601, or how long ago: 10m.",
)
@click.option(
    "--offset",
    type=int,
    metavar="N",
    help="Start at this offset of each queue; -N: N messages before its end.",
)
@click.option(
    "--until",
    type=Moment(),
    metavar="TIME",
    help="Only messages stored before this time, written as in --from.",
)
@queues_option
@click.option(
    "-k", "--key", metavar="KEY", help="Only messages with this sharding key (or index key)."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1_000_000_000),
    metavar="N",
    help="At most N messages.",
)
@click.option("-f", "--follow", is_flag=True, help="Keep printing new messages until Ctrl-C.")
@click.option(
    "--format",
    "layout",
    metavar="FORMAT",
    help="How to print a message, as in '%k %s\\n'; see below.",
)
@format_options()
@common_options
@click.pass_context
def tail(
    ctx: click.Context,
    *,
    topic: str,
    start: Position,
    offset: int | None,
    until: float | None,
    queues: tuple[tuple[str, int], ...],
    key: str | None,
    limit: int | None,
    follow: bool,
    layout: str | None,
    form: Format,
) -> None:
    """Print the messages of TOPIC: time stored, queue, offset, key, tags, body.

    JSON output also has the index keys and the properties of each message. Nothing is consumed: the
    command joins no group and commits no offset. Terminal escapes in messages have no effect.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    _check(ctx, layout is not None, offset is not None, until is not None and follow)
    write = None if layout is None else _writer(ctx, layout)
    from orderly.cli.reader import Span, TopicReader  # noqa: PLC0415  `--help` needs no sockets

    with settings.client() as client:
        reader = TopicReader(client, topic, Span(start, offset, until, queues))
        found = islice(_selected(reader.messages(follow=follow), key), limit)
        try:
            if write is not None:
                for message in found:
                    click.echo(write(message), nl=False)
            else:
                show_each(_COLUMNS, map(_shown, found), form, settings)
        except KeyboardInterrupt:
            if not follow:
                raise  # with --follow it is how one stops


def _check(ctx: click.Context, layout: bool, offset: bool, endless: bool) -> None:
    """Refuse options that say two things about one."""

    def given(name: str) -> bool:
        return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE

    if offset and given("start"):
        raise click.UsageError("give --from or --offset, not both", ctx)
    if layout and given("output"):
        raise click.UsageError("give --format or --output, not both", ctx)
    if endless:
        raise click.UsageError("give --until or --follow, not both", ctx)


def _selected(messages: Iterator[ReceivedMessage], key: str | None) -> Iterator[ReceivedMessage]:
    if key is None:
        return messages
    return (found for found in messages if found.sharding_key == key or key in found.keys)


# --- as a table, and as documents -----------------------------------------------------------------


_COLUMNS = (
    Column("time"),
    Column("queue"),
    Column("offset", ColumnKind.NUMBER),
    Column("key"),
    Column("tags"),
    Column("message id", wide=True),
    Column("properties", wide=True),
    Column("body"),
)


def _shown(message: ReceivedMessage) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of a table, and the document, in which a body that is not UTF-8 is in base64."""
    queue, own = message.queue, _own(message)
    fields = {
        "time": iso_time(message.store_time),
        "topic": message.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "offset": message.queue_offset,
        "key": message.sharding_key,
        "keys": list(message.keys),
        "tags": message.tags,
        "message_id": message.message_id,
        "properties": own,
    }
    row = fields | {
        "queue": _place(message),
        "properties": _listed(own) or None,
        "body": preview(message, PREVIEW),
    }
    return row, fields | json_body(message)


def _own(message: ReceivedMessage) -> dict[str, str]:
    """The properties that programs set, without those of RocketMQ."""
    return {name: value for name, value in message.properties.items() if name not in RESERVED}


def _listed(properties: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in properties.items())


def _place(message: ReceivedMessage) -> str:
    return f"{message.queue.broker_name}/{message.queue.queue_id}"


# --- in a format of the user's --------------------------------------------------------------------


_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)
_DIRECTIVES: dict[str, Callable[[ReceivedMessage], str]] = {
    "%": lambda _: "%",
    "t": lambda message: message.topic,
    "p": _place,
    "o": lambda message: str(message.queue_offset),
    "k": lambda message: message.sharding_key or "",
    "s": lambda message: message.raw_body.decode(errors="backslashreplace"),
    "S": lambda message: str(len(message.raw_body)),
    "T": lambda message: iso_time(message.store_time),
    "h": lambda message: _listed(_own(message)),
    "g": lambda message: message.tags or "",
    "i": lambda message: message.message_id,
}


def _writer(ctx: click.Context, layout: str) -> Callable[[ReceivedMessage], str]:
    """What makes a message's text in a format. Where it ends nobody knows: nothing in it acts."""
    pieces = _DIRECTIVE.split(unescaped(layout))
    if unknown := next((name for name in pieces[1::2] if name not in _DIRECTIVES), None):
        raise click.UsageError(
            f"--format has no %{unknown}; it has %{', %'.join(_DIRECTIVES)}", ctx
        )

    def write(message: ReceivedMessage) -> str:
        return "".join(
            printable(_DIRECTIVES[piece](message)) if number % 2 else piece
            for number, piece in enumerate(pieces)
        )

    return write
