"""`orderly offsets show|reset`: a consumer group's offsets, to read and to set.

What a reset does is `offset_reset`; here are the options, the texts and the exit codes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.asking import confirmed
from orderly.cli.command import Group
from orderly.cli.groups import members_online, queue_fields, queue_rows
from orderly.cli.offset_reset import (
    Earliest,
    Exact,
    Latest,
    Moment,
    QueueReset,
    Target,
    plan,
)
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.selection import complete_group, complete_topic
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.errors import ConfigError, OrderlyError
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import iso_time

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import QueueStatus

SHOW_SCHEMA = "orderly.offsets/v1"
RESET_SCHEMA = "orderly.offsets-reset/v1"
SHOW_EXAMPLES = """\b
Examples:
  orderly offsets show -g shipping
  orderly offsets show -g shipping -t orders -o json
"""
RESET_EXAMPLES = """\b
Examples:
  orderly offsets reset -g shipping -t orders --to-earliest --dry-run
  orderly offsets reset -g shipping -t orders --to-time 2026-11-21T08:00:00Z
  orderly offsets reset -g shipping -t orders --queue broker-a:0 --to-offset 1000 --yes
"""


@click.group(cls=Group)
def offsets() -> None:
    """A consumer group's offsets: show them, set them.

    An offset is the position of the next message to consume. `-` means not known, or never
    committed; it is never 0.
    """


@offsets.command("show", epilog=SHOW_EXAMPLES)
@click.option(
    "-g",
    "--group",
    required=True,
    metavar="GROUP",
    shell_complete=complete_group,
    help="The consumer group.",
)
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Only this topic. Default: all it has offsets on.",
)
@output_option
@common_options
@click.pass_context
def show(ctx: click.Context, *, group: str, topic: str | None, output: str) -> int:
    """Show minimum, committed offset and maximum per queue."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    with settings.client() as client:
        measured = time.time()
        rows = _rows(client, group, topic)
    if output == "json":
        print_json(
            {
                "schema": SHOW_SCHEMA,
                "time": iso_time(measured),
                "group": group,
                "queues": [queue_fields(row) for row in rows],
            }
        )
    else:
        headings = ("topic", "broker", "queue", "min", "committed", "max")
        print_table(Table(headings, [tuple(queue_fields(row).values()) for row in rows]))
    return 0 if all(row.state is not QueueState.UNKNOWN for row in rows) else NOT_MEASURED


def _rows(client: Client, group: str, topic: str | None) -> list[QueueStatus]:
    rows = queue_rows(client, group, topic)
    if not rows:
        raise ConfigError(
            f"group {group} has no committed offset on any topic: check the name, or give --topic"
            " to see a topic's queues"
        )
    return rows


def _read_queue(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> tuple[str, int] | None:
    if text is None:
        return None
    broker, _, number = text.rpartition(":")
    if not broker or not (number.isascii() and number.isdecimal()):
        raise click.BadParameter("it takes BROKER:ID, as broker-a:0", ctx, param)
    return broker, int(number)


def _read_time(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        hint = "write an ISO 8601 time, as in 2026-01-31T12:00:00Z (without a zone: local time)"
        raise click.BadParameter(hint, ctx, param) from error


@offsets.command("reset", epilog=RESET_EXAMPLES)
@click.option(
    "-g",
    "--group",
    required=True,
    metavar="GROUP",
    shell_complete=complete_group,
    help="The consumer group.",
)
@click.option(
    "-t",
    "--topic",
    required=True,
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="The topic.",
)
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="One queue, with --queue.")
@click.option("--queue", metavar="BROKER:ID", callback=_read_queue, help="The queue: broker-a:0.")
@click.option(
    "--to-time",
    metavar="ISO8601",
    callback=_read_time,
    help="All queues, to the first message stored at or after it.",
)
@click.option("--to-earliest", is_flag=True, help="All queues, to the oldest message.")
@click.option("--to-latest", is_flag=True, help="All queues, to the end: skip what is there.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@common_options
@click.pass_context
def reset(
    ctx: click.Context,
    /,
    *,
    group: str,
    topic: str,
    dry_run: bool,
    yes: bool,
    output: str,
    **targets: Any,
) -> int:
    """Set a group's offsets: consume again, or skip.

    Members may run: each takes its new offsets with the next pull of the queue, at the latest
    after some 20 seconds, and what it has in hand then is not committed any more. In what comes
    again the order per key is kept.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    target = _target(ctx, **targets)
    if output == "json" and not (yes or dry_run):
        raise click.UsageError("with --output json give --yes or --dry-run", ctx)
    with settings.client() as client:
        planned_at = time.time()
        resets = plan(client, group, topic, target)
        members = members_online(client, group)
        if output == "table":
            _print_plan(resets)
        if not dry_run:
            question = f"Reset {len(resets)} queues of group {group}?"
            if not (yes or confirmed(ctx, question, "--yes (or --dry-run)")):
                click.echo("nothing was changed", err=True)
                return NOT_MEASURED
            _apply(client, group, resets)
    if output == "json":
        names = {"group": group, "topic": topic, "clients": members, "dry_run": dry_run}
        heading = {"schema": RESET_SCHEMA, "time": iso_time(planned_at)}
        print_json(heading | names | {"queues": [_planned(entry) for entry in resets]})
    if not dry_run:
        _tell_members(members)
    return 0


def _target(
    ctx: click.Context,
    *,
    to_offset: int | None,
    queue: tuple[str, int] | None,
    to_time: float | None,
    to_earliest: bool,
    to_latest: bool,
) -> Target:
    if (to_offset is None) != (queue is None):
        raise click.UsageError("--to-offset and --queue go together: one queue, one offset", ctx)
    chosen: list[Target] = []
    if to_offset is not None and queue is not None:
        chosen.append(Exact(*queue, to_offset))
    if to_time is not None:
        chosen.append(Moment(to_time))
    if to_earliest:
        chosen.append(Earliest())
    if to_latest:
        chosen.append(Latest())
    if len(chosen) != 1:
        options = "--to-offset with --queue, --to-time, --to-earliest or --to-latest"
        raise click.UsageError(f"give exactly one of {options}", ctx)
    return chosen[0]


def _print_plan(resets: Sequence[QueueReset]) -> None:
    headings = ("topic", "broker", "queue", "min", "max", "before", "after")
    print_table(
        Table(headings, [(entry.queue.topic, *_planned(entry).values()) for entry in resets])
    )


def _planned(entry: QueueReset) -> dict[str, str | int | None]:
    return {
        "broker": entry.queue.broker_name,
        "queue": entry.queue.queue_id,
        "min": entry.minimum,
        "max": entry.maximum,
        "before": entry.before,
        "after": entry.after,
    }


def _apply(client: Client, group: str, resets: Sequence[QueueReset]) -> None:
    """Set the offsets; each broker acknowledges its own."""
    try:
        client.groups.reset_queues(group, {entry.queue: entry.after for entry in resets})
    except OrderlyError:
        click.echo("not all queues were reset; `orderly offsets show` tells which", err=True)
        raise


def _tell_members(members: list[str] | None) -> None:
    if members is None:
        text = "whether members are online is not known"
    elif members:
        text = f"{len(members)} online: each takes it with its next pull, within some 20 s"
    else:
        text = "nobody is online: the next member to start begins there"
    click.echo(text, err=True)
