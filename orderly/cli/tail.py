"""`orderly tail`: prints a topic's messages. How they are read is in `reader`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.output import Format, format_options, show_each
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import json_body, preview
from orderly.model import ReceivedMessage
from orderly.monitoring.texts import Column, ColumnKind, iso_time

PREVIEW = 100  # characters of a body
EXAMPLES = """\b
Examples:
  orderly tail orders -n 10
  orderly tail orders --key order-17 -o json
  orderly tail orders --from last --follow
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
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
@format_options()
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
    form: Format,
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
        found = islice(_selected(reader.messages(follow=follow), key), limit)
        try:
            show_each(_COLUMNS, map(_shown, found), form, settings)
        except KeyboardInterrupt:
            if not follow:
                raise  # with --follow it is how one stops


def _selected(messages: Iterator[ReceivedMessage], key: str | None) -> Iterator[ReceivedMessage]:
    if key is None:
        return messages
    return (found for found in messages if found.sharding_key == key or key in found.keys)


_COLUMNS = (
    Column("time"),
    Column("queue"),
    Column("offset", ColumnKind.NUMBER),
    Column("key"),
    Column("tags"),
    Column("message id", wide=True),
    Column("body"),
)


def _shown(message: ReceivedMessage) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of a table, and the document, in which a body that is not UTF-8 is in base64."""
    queue = message.queue
    fields = {
        "time": iso_time(message.store_time),
        "topic": message.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "offset": message.queue_offset,
        "key": message.sharding_key,
        "tags": message.tags,
        "message_id": message.message_id,
    }
    place = f"{queue.broker_name}/{queue.queue_id}"
    row = fields | {"queue": place, "body": preview(message, PREVIEW)}
    return row, fields | json_body(message)
