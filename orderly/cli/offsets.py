"""`orderly offsets show|reset`: a consumer group's offsets, to read and to set.

A reset is planned first: where each queue goes. What was planned is what is sent: one offset for
each queue, so that the broker resets nothing the user has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import Group
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.options import Duration
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.selection import complete_topic, group_argument, queues_option, topic_argument
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import confirmed, say, yes_option
from orderly.config import check_offset
from orderly.errors import ConfigError, GroupNotFound, OrderlyError, RouteError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.texts import Column, ColumnKind, counted, iso_time

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
        client.routes.get(topic)  # or the topic does not exist
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
    """One queue: the group's offset (None: never committed), and its new one."""

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
        return _within(row, client.brokers.search_offset(row.queue, self.time))


@dataclass(frozen=True, slots=True)
class AtOffset:
    """To one offset, which each queue must have."""

    value: int

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The offset asked for."""
        assert row.minimum is not None
        assert row.maximum is not None
        check_offset(row.queue, self.value, row.minimum, row.maximum)
        return self.value


@dataclass(frozen=True, slots=True)
class Shifted:
    """By so many messages: back if it is negative. Never beyond the ends of a queue."""

    by: int

    def offset(self, client: Client, row: QueueStatus) -> int:  # noqa: ARG002  see Earliest
        """The committed offset, shifted."""
        if row.committed is None:
            raise ConfigError(
                f"the group has committed no offset in {row.queue}, so it cannot be shifted;"
                " leave the queue out (--queue), or give --to-earliest or --to-latest"
            )
        return _within(row, row.committed + self.by)


@dataclass(frozen=True, slots=True)
class Restored:
    """To what a file says, each queue to its own; queues that are not in it stay as they are."""

    offsets: Mapping[QueueOnBroker, int]

    def offset(self, client: Client, row: QueueStatus) -> int:
        """The file's offset for the queue."""
        value = self.offsets.get(_place(row))
        if value is None:
            raise ConfigError(f"the file has no offset for {row.queue}: nothing was reset")
        return AtOffset(value).offset(client, row)


QueueOnBroker = tuple[str, int]
Target = Earliest | Latest | AtTime | AtOffset | Shifted | Restored


def plan_reset(
    client: Client, group: str, topic: str, target: Target, only: Collection[QueueOnBroker] = ()
) -> list[QueueReset]:
    """Work out where each queue goes; sends nothing.

    Args:
        client: to ask with.
        group: whose offsets.
        topic: in which topic.
        target: where to.
        only: the queues to reset; none: all of the topic, or of the file.

    Raises:
        ConfigError: a queue does not exist, or does not have the offset.
        RouteError: a queue's offsets could not be read.
    """
    rows = queue_rows(client, group, topic)
    if not rows:
        raise GroupNotFound(f"group {group} is unknown to the brokers: start its consumer first")
    wanted = set(only) or (set(target.offsets) if isinstance(target, Restored) else set())
    _require_queues(topic, wanted, rows)
    return [_reset(client, target, row) for row in rows if not wanted or _place(row) in wanted]


def _within(row: QueueStatus, offset: int) -> int:
    """The nearest offset that a queue has, or its end."""
    assert row.minimum is not None
    assert row.maximum is not None
    return min(max(offset, row.minimum), row.maximum)


def _place(row: QueueStatus) -> QueueOnBroker:
    return row.queue.broker_name, row.queue.queue_id


def _require_queues(topic: str, wanted: set[QueueOnBroker], rows: Sequence[QueueStatus]) -> None:
    for broker, queue_id in sorted(wanted - set(map(_place, rows))):
        known = ", ".join(f"{broker}/{queue_id}" for broker, queue_id in map(_place, rows))
        raise ConfigError(
            f"topic {topic} has no queue {broker}/{queue_id}; it has: {known or 'none'}"
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
  orderly offsets show shipping
  orderly offsets show shipping -t orders -o csv > before.csv
"""
RESET_EXAMPLES = """\b
Examples:
  orderly offsets reset shipping orders --to-earliest --dry-run
  orderly offsets reset shipping orders --by-duration 2h
  orderly offsets reset shipping orders --to-time 2026-11-21T08:00:00Z
  orderly offsets reset shipping orders --shift-by -100 --queue broker-a/0
  orderly offsets reset shipping orders --from-file before.csv
"""


@click.group(cls=Group)
def offsets() -> None:
    """A consumer group's offsets: show them, set them.

    An offset is the position of the next message to consume. `-` means not known, or never
    committed; it never means 0.
    """


@offsets.command("show", epilog=SHOW_EXAMPLES)
@group_argument
@click.option(
    "-t",
    "--topic",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="Only this topic. Default: all topics in which GROUP has offsets.",
)
@format_options()
@common_options
@click.pass_context
def show_offsets(ctx: click.Context, *, group: str, topic: str | None, form: Format) -> int:
    """Show the minimum, committed and maximum offset of each queue of GROUP."""
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


def _read_time(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        hint = "write an ISO 8601 time, as in 2026-01-31T12:00:00Z (without a zone: local time)"
        raise click.BadParameter(hint, ctx, param) from error


@offsets.command("reset", epilog=RESET_EXAMPLES)
@group_argument
@topic_argument
@click.option("--to-earliest", is_flag=True, help="To the oldest message.")
@click.option("--to-latest", is_flag=True, help="To the end: skip all stored messages.")
@click.option(
    "--to-time",
    metavar="TIME",
    callback=_read_time,
    help="To the first message stored at or after this time (ISO 8601).",
)
@click.option(
    "--by-duration", type=Duration(), help="To the first message stored within this time: 2h."
)
@click.option(
    "--shift-by",
    type=int,
    metavar="N",
    help="By N messages, back if N is negative, but not beyond the ends of a queue.",
)
@click.option(
    "--to-offset",
    type=click.IntRange(0),
    metavar="N",
    help="To this offset. Needs --queue, because an offset belongs to one queue.",
)
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="To the column `committed` of FILE, which you saved with `offsets show -o csv`.",
)
@queues_option
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@yes_option
@format_options()
@common_options
@click.pass_context
def reset(
    ctx: click.Context,
    /,
    *,
    group: str,
    topic: str,
    queues: tuple[QueueOnBroker, ...],
    dry_run: bool,
    yes: bool,
    form: Format,
    **targets: Any,
) -> int:
    """Set the offsets of GROUP in TOPIC: consume again, or skip.

    Members can keep running. Each takes the new offsets at its next pull of the queue, after about
    20 seconds at the latest. It does not commit messages that it works on at that moment. Messages
    that come again keep the order of each key.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    target = _target(ctx, settings, topic, queues, **targets)
    form.require_answer(ctx, yes, dry_run, otherwise="--yes or --dry-run")
    with settings.client() as client:
        planned_at = time.time()
        resets = plan_reset(client, group, topic, target, queues)
        members = members_online(client, group)
        names = {"group": group, "topic": topic, "clients": members, "dry_run": dry_run}
        heading = {"schema": RESET_SCHEMA, "time": iso_time(planned_at)}
        planned = _answer(resets, heading | names)
        if form.for_reader:
            show(planned, form, settings)
            say(_effect(resets))
        if not dry_run:
            question = f"Reset {counted(len(resets), 'queue')} of group {group}?"
            if not (yes or confirmed(ctx, question, "--yes (or --dry-run)")):
                say("nothing was changed")
                return NOT_MEASURED
            _apply(client, group, resets)
    if not form.for_reader:
        show(planned, form, settings)
    if not dry_run:
        _say_who_is_online(members)
    return 0


def _target(
    ctx: click.Context,
    settings: CommonOptions,
    topic: str,
    queues: tuple[QueueOnBroker, ...],
    *,
    from_file: Path | None,
    **given: Any,
) -> Target:
    """The one target that the options name."""
    chosen = {name: it for name, it in given.items() if it is not None and it is not False}
    if len(chosen) + (from_file is not None) != 1:
        names = [f"--{name.replace('_', '-')}" for name in (*_TARGETS, "from_file")]
        raise click.UsageError(f"give exactly one of {', '.join(names)}", ctx)
    if from_file is not None:
        return Restored(_offsets_of(settings, topic, from_file))
    ((name, value),) = chosen.items()
    if name == "to_offset" and len(queues) != 1:
        raise click.UsageError("--to-offset and --queue go together: one queue, one offset", ctx)
    return _TARGETS[name](value)


_TARGETS: Mapping[str, Callable[[Any], Target]] = {
    "to_earliest": lambda _: Earliest(),
    "to_latest": lambda _: Latest(),
    "to_time": AtTime,
    "by_duration": lambda seconds: AtTime(time.time() - seconds),
    "shift_by": Shifted,
    "to_offset": AtOffset,
}


def _offsets_of(settings: CommonOptions, topic: str, path: Path) -> dict[QueueOnBroker, int]:
    """What a file says of a topic's queues; one without an offset is not in it."""
    of_topic = [row for row in _rows_of(path) if settings.topic(row["topic"]) == topic]
    try:
        found = {
            (row["broker"], int(row["queue"])): int(row["committed"])
            for row in of_topic
            if row["committed"]
        }
    except ValueError as error:
        raise ConfigError(f"{path} has a value that is not a number: {error}") from error
    if left := len(of_topic) - len(found):
        say(f"{counted(left, 'queue')} of {path} without an offset: left alone")
    if not found:
        raise ConfigError(f"{path} has no offset of topic {topic}: nothing was reset")
    return found


def _rows_of(path: Path) -> list[dict[str, str]]:
    """The rows of a file as `offsets show -o csv` writes it."""
    import csv  # noqa: PLC0415  only here

    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(table := csv.DictReader(file))
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if missing := {"topic", "broker", "queue", "committed"} - set(table.fieldnames or ()):
        raise ConfigError(
            f"{path} has no column {', '.join(sorted(missing))}: write the file with `orderly"
            " offsets show GROUP -o csv`"
        )
    return rows


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


def _effect(resets: Sequence[QueueReset]) -> str:
    """What it comes to, as far as the group has offsets."""
    moves = [entry.after - entry.before for entry in resets if entry.before is not None]
    again, skipped = -sum(min(0, move) for move in moves), sum(max(0, move) for move in moves)
    text = f"{counted(again, 'message', f'{again:,}')} consumed again, {skipped:,} skipped"
    new = len(resets) - len(moves)
    return f"{text}; {counted(new, 'queue')} without an offset before" if new else text


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
        say("not all queues were reset: see which with `orderly offsets show`")
        raise


def _say_who_is_online(members: list[str] | None) -> None:
    if members is None:
        text = "whether members are online is not known"
    elif members:
        online = counted(len(members), "member")
        text = f"{online} online: each takes the new offsets at its next pull, within about 20 s"
    else:
        text = "no member is online: the next one to start begins at the new offsets"
    say(text)
