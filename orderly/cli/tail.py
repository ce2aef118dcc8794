"""`orderly tail`: prints a topic's messages. How they are read is in `reader`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice

import click

from orderly.cli.command import Command
from orderly.cli.output import json_body
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import preview, printable
from orderly.model import ReceivedMessage
from orderly.monitoring.texts import iso_time

PREVIEW = 100  # characters of a body
EXAMPLES = """\b
Examples:
  orderly tail orders -n 10
  orderly tail orders --key order-17 -o json
  orderly tail orders --from last --follow
"""


@click.command(cls=Command, epilog=EXAMPLES)
@topic_argument
@click.option(
    "--from",
    "start",
    default="first",
    show_default=True,
    metavar="first|last|TIME",
    help="Where to begin; a time is ISO 8601.",
)
@click.option(
    "-k", "--key", metavar="KEY", help="Only messages with this sharding key (or index key)."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1_000_000_000),
    metavar="N",
    help="Stop after N messages.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is sent from now on.")
@output_option
@common_options
@click.pass_context
def tail(
    ctx: click.Context,
    *,
    topic: str,
    start: str,
    key: str | None,
    limit: int | None,
    follow: bool,
    output: str,
) -> None:
    """Print the messages of TOPIC: time stored, queue, offset, key, tags, body.

    Nothing is consumed: no group is joined and no offset is committed. Control characters and
    terminal escapes in messages are never passed on.
    """
    settings = settings_of(ctx)
    topic = settings.topic(topic)
    from orderly.cli.reader import TopicReader  # noqa: PLC0415  `--help` needs no sockets

    with settings.client() as client:
        reader = TopicReader(client, topic, start)
        show = as_json if output == "json" else as_line
        try:
            for message in islice(_selected(reader.messages(follow=follow), key), limit):
                click.echo(show(message))
        except KeyboardInterrupt:
            if not follow:
                raise  # with --follow it is how one stops


def _selected(messages: Iterator[ReceivedMessage], key: str | None) -> Iterator[ReceivedMessage]:
    if key is None:
        return messages
    return (found for found in messages if found.sharding_key == key or key in found.keys)


def as_line(message: ReceivedMessage) -> str:
    """One line for a reader; `-` is what the message does not have."""
    fields = (
        iso_time(message.store_time),
        f"{message.queue.broker_name}/{message.queue.queue_id}",
        str(message.queue_offset),
        message.sharding_key or "-",
        message.tags or "-",
    )
    return "  ".join([*map(printable, fields), preview(message, PREVIEW)])


def as_json(message: ReceivedMessage) -> str:
    """One JSON object; a body that is not UTF-8 is given in base64."""
    return json.dumps(
        {
            "time": iso_time(message.store_time),
            "topic": message.topic,
            "broker": message.queue.broker_name,
            "queue": message.queue.queue_id,
            "offset": message.queue_offset,
            "key": message.sharding_key,
            "tags": message.tags,
            "message_id": message.message_id,
        }
        | json_body(message)
    )
