"""`orderly offsets show|reset`: a consumer group's offsets, to read and to set.

A reset is planned first: where each queue goes. What was planned is what is sent: one offset for
each queue, so that the broker resets nothing the user has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import Group
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.selection import complete_group, complete_topic
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import confirmed
from orderly.config import check_offset
from orderly.errors import ConfigError, GroupNotFound, OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import Column, ColumnKind, iso_time

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import QueueStatus


def queue_rows(client: Client, group: str, topic: str | None = None) -> list[QueueStatus]:
    """A group's queues, sorted, with their offsets; none if no broker knows the group.

    Raises:
        OrderlyError: there is no such topic, or a broker does not answer and nothing is known.
    """
    from orderly.monitoring.collecting.selection import Selection  # noqa: PLC0415  quick --help
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415

    if topic is not None:
        client.routes.get(topic)  # or there is none
    snapshot = survey(client, Selection((group,), () if topic is None else (topic,)))
    rows = list(snapshot.groups[group].rows()) if group in snapshot.groups else []
    if any(row.maximum is not None for row in rows):
        return rows
    for broker in snapshot.brokers.values():
        if broker.error is not None:
            raise OrderlyError(f"the offsets of group {group} could not be read: {broker.error}")
    return rows


def members_online(client: Client, group: str) -> list[str] | None:
    """Client ids of the group's members that are connected; None: not known."""
    try:
        members = client.admin.consumer_connections(group)
    except OrderlyError:
        return None
    return [member.client_id for member in members.connections] if members else []


def queue_fields(row: QueueStatus) -> dict[str, str | int | None]:
    """A queue and its offsets, as every JSON output names them."""
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "min": row.minimum,
        "committed": row.committed,
        "max": row.maximum,
    }


# --- a reset, planned -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QueueReset:
    """One queue: where the group is (None: never committed), and where it shall be."""

    queue: MessageQueue
    minimum: int
    maximum: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True)
class Earliest:
    """To the oldest message of each queue."""

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  one question, four answers
        """The queue's minimum."""
        assert row.minimum is not None
        return row.minimum


@dataclass(frozen=True, slots=True)
class Latest:
    """To the end of each queue: what is there is skipped."""

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The queue's maximum."""
        assert row.maximum is not None
        return row.maximum


@dataclass(frozen=True, slots=True)
class AtTime:
    """To the first message stored at or after a time (seconds since the epoch)."""

    time: float

    def offset(self, client: Client, row: QueueStatus) -> int:
        """As the broker searches; a queue without such a message: its maximum."""
        assert row.minimum is not None
        assert row.maximum is not None
        found = client.brokers.search_offset(row.queue, self.time)
        return min(max(found, row.minimum), row.maximum)


@dataclass(frozen=True, slots=True)
class AtOffset:
    """One queue, to an offset."""

    broker: str
    queue_id: int
    value: int

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The offset asked for."""
        assert row.minimum is not None
        assert row.maximum is not None
        check_offset(row.queue, self.value, row.minimum, row.maximum)
        return self.value


Target = Earliest | Latest | AtTime | AtOffset


def plan_reset(client: Client, group: str, topic: str, target: Target) -> list[QueueReset]:
    """Work out where each queue goes; sends nothing.

    Raises:
        ConfigError: the queue does not exist, or does not have the offset.
        RouteError: a queue's offsets could not be read.
    """
    rows = queue_rows(client, group, topic)
    if not rows:
        raise GroupNotFound(f"group {group} is unknown to the brokers: start its consumer first")
    if isinstance(target, AtOffset):
        rows = [_row_of(target, topic, rows)]
    return [_reset(client, target, row) for row in rows]


def _row_of(target: AtOffset, topic: str, rows: Sequence[QueueStatus]) -> QueueStatus:
    wanted = MessageQueue(topic, target.broker, target.queue_id)
    for row in rows:
        if row.queue == wanted:
            return row
    known = ", ".join(f"{row.queue.broker_name}:{row.queue.queue_id}" for row in rows)
    raise ConfigError(
        f"topic {topic} has no queue {target.broker}:{target.queue_id}; it has: {known or 'none'}"
    )


def _reset(client: Client, target: Target, row: QueueStatus) -> QueueReset:
    if row.state is QueueState.UNKNOWN or row.minimum is None or row.maximum is None:
        raise RouteError(
            f"the offsets of {row.queue} could not be read, so nothing was reset; try again when"
            " its broker answers"
        )
    after = target.offset(client, row)
    return QueueReset(row.queue, row.minimum, row.maximum, row.committed, after)


# --- the commands ---------------------------------------------------------------------------------


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
@format_options()
@common_options
@click.pass_context
def show_offsets(ctx: click.Context, *, group: str, topic: str | None, form: Format) -> int:
    """Show minimum, committed offset and maximum per queue."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    with settings.client() as client:
        measured = time.time()
        rows = _rows(client, group, topic)
    queues = [queue_fields(row) for row in rows]
    heading = {"schema": SHOW_SCHEMA, "time": iso_time(measured), "group": group}
    show(CommandOutput.of(_COLUMNS, queues, heading | {"queues": queues}), form, settings)
    return 0 if all(row.state is not QueueState.UNKNOWN for row in rows) else NOT_MEASURED


_QUEUE = (Column("topic"), Column("broker"), Column("queue", ColumnKind.NUMBER))
_COLUMNS = (*_QUEUE, *(Column(name, ColumnKind.NUMBER) for name in ("min", "committed", "max")))


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
@format_options()
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
    form: Format,
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
    if not (form.for_reader or yes or dry_run):
        raise click.UsageError(f"with --output {form.output} give --yes or --dry-run", ctx)
    with settings.client() as client:
        planned_at = time.time()
        resets = plan_reset(client, group, topic, target)
        members = members_online(client, group)
        names = {"group": group, "topic": topic, "clients": members, "dry_run": dry_run}
        heading = {"schema": RESET_SCHEMA, "time": iso_time(planned_at)}
        planned = _answer(resets, heading | names)
        if form.for_reader:
            show(planned, form, settings)
        if not dry_run:
            question = f"Reset {len(resets)} queues of group {group}?"
            if not (yes or confirmed(ctx, question, "--yes (or --dry-run)")):
                click.echo("nothing was changed", err=True)
                return NOT_MEASURED
            _apply(client, group, resets)
    if not form.for_reader:
        show(planned, form, settings)
    if not dry_run:
        _say_who_is_online(members)
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
        chosen.append(AtOffset(*queue, to_offset))
    if to_time is not None:
        chosen.append(AtTime(to_time))
    if to_earliest:
        chosen.append(Earliest())
    if to_latest:
        chosen.append(Latest())
    if len(chosen) != 1:
        options = "--to-offset with --queue, --to-time, --to-earliest or --to-latest"
        raise click.UsageError(f"give exactly one of {options}", ctx)
    return chosen[0]


_PLANNED = (
    *_QUEUE,
    *(Column(name, ColumnKind.NUMBER) for name in ("min", "max", "before", "after")),
)


def _answer(resets: Sequence[QueueReset], heading: dict[str, Any]) -> CommandOutput:
    queues = [_planned(entry) for entry in resets]
    rows = [
        (entry.queue.topic, *fields.values()) for entry, fields in zip(resets, queues, strict=True)
    ]
    return CommandOutput(_PLANNED, rows, lambda: heading | {"queues": queues})


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
        click.echo("not all queues were reset: see which with `orderly offsets show`", err=True)
        raise


def _say_who_is_online(members: list[str] | None) -> None:
    if members is None:
        text = "whether members are online is not known"
    elif members:
        text = f"{len(members)} online: each takes it with its next pull, within some 20 s"
    else:
        text = "nobody is online: the next member to start begins there"
    click.echo(text, err=True)
