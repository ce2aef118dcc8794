"""`orderly parked list|show|export|keepalive`: what is set aside, to read and to keep.

The commands that change something are in `parked_commands`, the work in `orderly.monitoring`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.backlog.redacting import redact_option
from orderly.cli.command import Group
from orderly.cli.durations import Finite
from orderly.cli.grouping import group_by_option, print_groups
from orderly.cli.hiding import listing_without_keys
from orderly.cli.output import Table, json_body, print_json, print_table
from orderly.cli.parked_commands import (
    add,
    drop,
    key_argument,
    key_text,
    release,
    say,
    topic_option,
)
from orderly.cli.progress import Progress
from orderly.cli.selection import group_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import preview
from orderly.errors import ConfigError, OrderlyError
from orderly.monitoring.backlog.judging import queues_text
from orderly.monitoring.texts import iso_time

if TYPE_CHECKING:
    from orderly.monitoring.parking.queues import Unknown
    from orderly.monitoring.parking.reports import KeyReport, Listing
    from orderly.protocol.park_record import Parked

LIST_SCHEMA = "orderly.parked/v1"
GROUPS_SCHEMA = "orderly.parked-groups/v1"
SHOW_SCHEMA = "orderly.parked-key/v1"
PREVIEW = 60  # characters of a body
_HOUR = 3600.0
LIST = """\b
Examples:
  orderly parked list shipping
  orderly parked list shipping -t orders --redact-keys hash -o json
  orderly parked list shipping --group-by fingerprint
"""
SHOW = """\b
Examples:
  orderly parked show shipping order-17
  orderly parked show shipping order-17 --limit 5 -o json
"""
EXPORT = """\b
Examples:
  orderly parked export shipping parked.jsonl
"""
KEEPALIVE = """\b
Examples:
  orderly parked keepalive shipping
  orderly parked keepalive shipping --older-than 24
"""


@click.group(cls=Group)
def parked() -> None:
    """Keys that a group has set aside: list, look, add, release, drop, export, keep.

    A number is another key than its text: say --int for it. What begins with "-" goes behind
    "--", as in: orderly parked release --int GROUP -- -7
    """


parked.add_command(add)
parked.add_command(release)
parked.add_command(drop)


@parked.command("list", short_help="The parked keys of a group.", epilog=LIST)
@group_argument
@topic_option
@group_by_option("fingerprint", "class", "queue")
@redact_option
@output_option
@common_options
@click.pass_context
def list_keys(
    ctx: click.Context,
    *,
    group: str,
    topic: str | None,
    group_by: str | None,
    redact_keys: str | None,
    output: str,
) -> int:
    """Show the parked keys of GROUP; nobody needs to be running."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        listing = ParkedMessages(client, group, topic).list()
    if redact_keys:
        listing = listing_without_keys(listing)
    if group_by is not None:
        rows = map(_to_group, listing.keys)
        print_groups(rows, group_by, output, _told(GROUPS_SCHEMA, group, listing))
        for queue, error in listing.unknown:
            say(f"UNKNOWN {queue}: {error}")
    elif output == "json":
        keys = [_fields(report) for report in listing.keys]
        print_json(_told(LIST_SCHEMA, group, listing) | {"keys": keys})
    else:
        _print_listing(listing)
    brokers = ", ".join(sorted({queue.broker_name for queue in listing.read})) or "no broker"
    for report in listing.keys:
        _say_gone(f"key {report.key!r} of {report.queue}", report.gone)
    count = "1 parked key" if len(listing.keys) == 1 else f"{len(listing.keys)} parked keys"
    say(f"{count} of group {group} in {queues_text(len(listing.read))} read on {brokers}")
    return NOT_MEASURED if listing.unknown else 0


def _say_gone(what: str, count: int) -> None:
    if count > 0:
        say(
            f"{what}: up to {count} messages that were counted may be gone: some of the park topic"
            " is deleted by its age, or damaged"
        )


_CLASS = re.compile(r"(answered )?[\w.]+")  # a fingerprint begins with it


def _to_group(report: KeyReport) -> dict[str, Any]:
    """A row for `grouped`: a key counts as its first message, which is the one that failed."""
    found = _fields(report)
    queue, how = report.queue, found["fingerprint"]
    named = None if how is None else _CLASS.match(how)
    return found | {
        "time": found["since"],
        "fingerprint": how or found["reason"],
        "class": None if named is None else named[0],
        "queue": f"{queue.topic}/{queue.broker_name}/{queue.queue_id}",
    }


def _told(schema: str, group: str, listing: Listing) -> dict[str, Any]:
    return {
        "schema": schema,
        "time": iso_time(time.time()),
        "group": group,
        "read": [str(queue) for queue in listing.read],
        "unknown": [
            {"topic": q.topic, "broker": q.broker_name, "queue": q.queue_id, "error": str(error)}
            for q, error in listing.unknown
        ],
    }


def _fields(report: KeyReport) -> dict[str, Any]:
    queue, first = report.queue, report.first
    details = None if first is None else first.details
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "key": report.key,
        "messages": report.messages,
        "bytes": report.size,
        "recorded": report.recorded,
        "gone": report.gone,
        "first_offset": None if first is None else first.offset,
        "last_offset": report.last_offset,
        "since": None if details is None else iso_time(details.parked_at),
        "attempts": None if details is None else details.attempts,
        "reason": (details.reason or None) if details is not None else None,
        "fingerprint": None if details is None else details.fingerprint,
        "first_error": None if details is None else details.first_error,
        "last_error": None if details is None else details.last_error,
        "kept_until": None if report.expires is None else iso_time(report.expires),
    }


_COLUMNS = ("topic", "broker", "queue", "key", "messages", "since", "kept until", "why")


def _print_listing(listing: Listing) -> None:
    rows = [_row(report) for report in listing.keys]
    print_table(Table(_COLUMNS, [*rows, *_unknown_rows(listing.unknown)]))


def _row(report: KeyReport) -> tuple[str | int | None, ...]:
    queue, found = report.queue, _fields(report)
    at = (queue.topic, queue.broker_name, queue.queue_id, key_text(report.key))
    times = (_minute(found["since"]), _minute(found["kept_until"]))
    return (*at, report.messages, *times, _why(found))


def _minute(time: str | None) -> str | None:
    """An ISO 8601 time that leaves room for the key."""
    return None if time is None else f"{time[:16]}Z"


def _why(fields: dict[str, Any]) -> str | None:
    """How the first message failed; the reason, if that is all that is known."""
    why: str | None = fields["first_error"] or fields["fingerprint"] or fields["reason"]
    return why


def _unknown_rows(unknown: Unknown) -> Iterator[tuple[str | int | None, ...]]:
    nothing = (None,) * (len(_COLUMNS) - 5)
    for queue, error in unknown:
        yield (queue.topic, queue.broker_name, queue.queue_id, "UNKNOWN", *nothing, str(error))


@parked.command("show", short_help="The messages of a parked key.", epilog=SHOW)
@group_argument
@key_argument
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1_000_000_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Show only the first N messages.",
)
@topic_option
@output_option
@common_options
@click.pass_context
def show(
    ctx: click.Context, *, group: str, key: str | int, limit: int, topic: str | None, output: str
) -> None:
    """Show the parked messages of KEY in GROUP, in the order in which they would be released."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        messages = iter(ParkedMessages(client, group, topic).show(key))
        found = list(islice(messages, limit))
        more = next(messages, None) is not None
    if output == "json":
        told = [_message(each) | json_body(each.original) for each in found]
        print_json({"schema": SHOW_SCHEMA, "group": group, "key": key, "messages": told})
    else:
        _print_messages(found)
    if more:
        say(f"only the first {limit} messages are shown (--limit)")


def _print_messages(messages: Sequence[Parked]) -> None:
    columns = ("broker", "queue", "offset", "stored", "attempts")
    fields = [_message(found) for found in messages]
    rows = [
        (*(of[column] for column in columns), _why(of), preview(found.original, PREVIEW))
        for of, found in zip(fields, messages, strict=True)
    ]
    print_table(Table((*columns, "why", "body"), rows))


def _message(found: Parked) -> dict[str, Any]:
    source, details = found.original, found.details
    return {
        "topic": source.queue.topic,
        "broker": source.queue.broker_name,
        "queue": source.queue.queue_id,
        "offset": source.queue_offset,
        "message_id": source.message_id,
        "tags": source.tags,
        "stored": iso_time(source.store_time),
        "parked": iso_time(details.parked_at),
        "attempts": details.attempts,
        "reason": details.reason,
        "fingerprint": details.fingerprint,
        "first_error": details.first_error,
        "last_error": details.last_error,
    }


@parked.command("export", short_help="Write all of them to a file.", epilog=EXPORT)
@group_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@topic_option
@common_options
@click.pass_context
def export(ctx: click.Context, *, group: str, file: Path, topic: str | None) -> None:
    """Write all parked messages of GROUP to FILE: JSON lines, bodies in base64.

    The file appears when it is whole, or not at all.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        try:
            exported = ParkedMessages(client, group, topic).export(file)
        except OrderlyError:  # a broker's silence is an OSError, too
            raise
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error.strerror or error}") from error
    say(f"{exported.messages} messages written to {file}")
    _say_gone("not in it", exported.gone)


@parked.command("keepalive", short_help="Store again what is old; for cron.", epilog=KEEPALIVE)
@group_argument
@click.option(
    "--older-than",
    type=Finite(0),
    metavar="HOURS",
    help="What was stored longer ago. Default: half of the time the broker keeps messages.",
)
@topic_option
@common_options
@click.pass_context
def keepalive(
    ctx: click.Context, *, group: str, older_than: float | None, topic: str | None
) -> int:
    """Append what is parked in GROUP again before the broker deletes it by its age; for cron.

    Running members do it by themselves.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    seconds = None if older_than is None else older_than * _HOUR
    with settings.client() as client:
        progress = Progress("appended")
        renewal = ParkedMessages(client, group, topic).keepalive(seconds, progress.reached)
    say(f"{renewal.appended} messages appended again")
    for queue, error in renewal.unknown:
        say(f"UNKNOWN {queue}: {error}")
    return NOT_MEASURED if renewal.unknown else 0
