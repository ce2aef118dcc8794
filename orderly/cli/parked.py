"""`orderly parked list|show|export|keepalive`: what is set aside, to read and to keep.

The commands that change something are in `parked_commands`, the work in `orderly.monitoring`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.output import Table, json_body, print_json, print_table
from orderly.cli.parked_commands import drop, key_argument, release, replay, topic_option
from orderly.cli.progress import Progress
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import iso_time, preview
from orderly.errors import ConfigError
from orderly.monitoring.backlog import queues_text

if TYPE_CHECKING:
    from orderly.monitoring.park_queues import Unknown
    from orderly.monitoring.parked import KeyReport, Listing
    from orderly.protocol.park_record import Parked

LIST_SCHEMA = "orderly.parked/v1"
SHOW_SCHEMA = "orderly.parked-key/v1"
PREVIEW = 60  # characters of a body
_HOUR = 3600.0


@click.group()
def parked() -> None:
    """Keys that a group has set aside: list, look, release, replay, drop, export, keep.

    A number is another key than its text: say --int for it.
    """


parked.add_command(release)
parked.add_command(replay)
parked.add_command(drop)


@parked.command("list")
@click.argument("group")
@topic_option
@output_option
@common_options
@click.pass_context
def list_keys(ctx: click.Context, *, group: str, topic: str | None, output: str) -> int:
    """Show the parked keys of GROUP; nobody needs to be running.

    Exit codes: 0 known, also if nothing is parked; 3 some queue could not be read (UNKNOWN).
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        listing = ParkedMessages(client, group, topic).list()
    if output == "json":
        print_json(_listed(group, listing))
    else:
        _print_listing(listing)
    brokers = ", ".join(sorted({queue.broker_name for queue in listing.read})) or "no broker"
    click.echo(
        f"{len(listing.keys)} parked keys of group {group} in {queues_text(len(listing.read))} read"
        f" on {brokers}",
        err=True,
    )
    return NOT_MEASURED if listing.unknown else 0


def _listed(group: str, listing: Listing) -> dict[str, Any]:
    return {
        "schema": LIST_SCHEMA,
        "time": iso_time(time.time()),
        "group": group,
        "keys": [_fields(report) for report in listing.keys],
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
        "first_offset": None if first is None else first.offset,
        "last_offset": report.last_offset,
        "since": None if details is None else iso_time(details.parked_at),
        "attempts": None if details is None else details.attempts,
        "reason": None if details is None else details.reason,
        "fingerprint": None if details is None else details.fingerprint,
        "first_error": None if details is None else details.first_error,
        "last_error": None if details is None else details.last_error,
        "kept_until": None if report.expires is None else iso_time(report.expires),
    }


_COLUMNS = ("topic", "broker", "queue", "key", "messages", "bytes", "first_offset", "last_offset",
            "since", "attempts", "kept_until", "reason")  # fmt: skip


def _print_listing(listing: Listing) -> None:
    fields = [_fields(report) for report in listing.keys]
    rows = [tuple(found[column] for column in _COLUMNS) for found in fields]
    headings = [column.replace("_", " ") for column in _COLUMNS]
    print_table(Table(headings, [*rows, *_unknown_rows(listing.unknown)]))


def _unknown_rows(unknown: Unknown) -> Iterator[tuple[str | int | None, ...]]:
    nothing = (None,) * (len(_COLUMNS) - 5)
    for queue, error in unknown:
        yield (queue.topic, queue.broker_name, queue.queue_id, "UNKNOWN", *nothing, str(error))


@parked.command("show")
@click.argument("group")
@key_argument
@topic_option
@output_option
@common_options
@click.pass_context
def show(ctx: click.Context, *, group: str, key: str | int, topic: str | None, output: str) -> None:
    """Show the parked messages of KEY in GROUP, in the order in which they would be released."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        messages = list(ParkedMessages(client, group, topic).show(key))
    if output == "json":
        told = [_message(found) | json_body(found.original.body) for found in messages]
        print_json({"schema": SHOW_SCHEMA, "group": group, "key": key, "messages": told})
        return
    columns = ("broker", "queue", "offset", "stored", "attempts", "reason")
    rows = [
        (*(_message(m)[column] for column in columns), preview(m.original.body, PREVIEW))
        for m in messages
    ]
    print_table(Table((*columns, "body"), rows))


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


@parked.command("export")
@click.argument("group")
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
            count = ParkedMessages(client, group, topic).export(file)
        except OSError as error:
            raise ConfigError(f"{file} cannot be written: {error}") from error
    click.echo(f"{count} messages written to {file}", err=True)


@parked.command("keepalive")
@click.argument("group")
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    metavar="HOURS",
    help="What was stored longer ago; default: half of the time the broker keeps messages.",
)
@topic_option
@common_options
@click.pass_context
def keepalive(
    ctx: click.Context, *, group: str, older_than: float | None, topic: str | None
) -> int:
    """Append what is parked in GROUP again before the broker deletes it by its age; for cron.

    Running members do it by themselves. Exit codes: 0 done; 3 not in all queues.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    seconds = None if older_than is None else older_than * _HOUR
    with settings.client() as client:
        progress = Progress("appended")
        renewal = ParkedMessages(client, group, topic).keepalive(seconds, progress.reached)
    click.echo(f"{renewal.appended} messages appended again", err=True)
    for queue, error in renewal.unknown:
        click.echo(f"UNKNOWN {queue}: {preview(str(error).encode(), 500)}", err=True)
    return NOT_MEASURED if renewal.unknown else 0
