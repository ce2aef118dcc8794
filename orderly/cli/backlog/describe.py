"""`orderly backlog describe`: all that is known about one group, as text for a reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import click

from orderly.cli.backlog.listing import (
    Level,
    Line,
    ListingOptions,
    fields_of,
    lines_of,
    lines_of_group,
    listing,
    unread,
)
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.command import OrderlyCommand
from orderly.cli.output import (
    OF_BACKLOGS,
    CommandOutput,
    Format,
    Style,
    format_options,
    show,
    shown,
    state,
    table,
)
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import printable
from orderly.foreign_text import escaped
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Sums
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.backlog.thresholds import queues_text
from orderly.monitoring.texts import Column, ColumnKind, counted, duration

_LABEL = 11  # characters


def description(at: float, group: GroupStatus, style: Style, *, everything: bool) -> str:
    """Describe a group.

    Args:
        at: time of the snapshot.
        group: it.
        style: of tables.
        everything: all columns of the queues.
    """
    word = str(group.sums.state)
    parts = [f"{printable(group.group)}  {state(word) if style.color else word}"]
    parts += [f"  {label:<{_LABEL}}{text}" for label, text in _facts(at, group, style)]
    parts += [f"  {'finding':<{_LABEL}}{printable(text)}" for text in group.findings]
    lines = list(lines_of_group(at, group, ListingOptions(Level.QUEUE)))
    for answer in (_queues(lines), _heads(at, lines), _parked(lines)):
        if answer.rows:
            parts += ["", table(answer, style, everything=everything)]
    causes = [row for row in _rows(lines) if row.cause]
    if causes:
        parts += ["", *(printable(f"{row.state} {row.queue}: {row.cause}") for row in causes)]
    return "\n".join(parts)


def _facts(at: float, group: GroupStatus, style: Style) -> Iterator[tuple[str, str]]:
    sums = group.sums
    yield "backlog", _backlog(sums, style)
    if sums.in_rate is not None or sums.out_rate is not None:
        rates = [shown(rate, ColumnKind.RATE, style) for rate in (sums.in_rate, sums.out_rate)]
        yield "rates", f"{rates[0]} messages/s in, {rates[1]} out"
    yield "members", _members(group)
    if group.order or group.model:
        yield (
            "kind",
            ", ".join(filter(None, (group.order and f"order by {group.order}", group.model))),
        )
    if sums.parked_keys is not None:
        messages = counted(sums.parked_messages or 0, "message")
        yield "parked", _aged(f"{counted(sums.parked_keys, 'key')}, {messages}", sums.parked_age)
    if group.dead is not None:
        oldest = group.dead.oldest_at
        age = None if oldest is None else max(0.0, at - oldest)
        yield "dead", _aged(counted(group.dead.messages, "message"), age)
    if sums.lost:
        lost = counted(sums.lost, "message")
        yield "lost", f"{lost} deleted before being consumed"


def _backlog(sums: Sums, style: Style) -> str:
    text = "not known" if sums.backlog is None else _messages(sums.backlog, style)
    text += f" in {queues_text(sums.queues)}"
    if sums.unknown and sums.backlog is not None:
        text += f" (not known of {sums.unknown})"
    if sums.head_age:
        text += f"; the oldest {duration(sums.head_age)} old"
    if sums.drain_eta:
        text += f"; ETA {duration(sums.drain_eta)}"
    if sums.backlog and sums.retention_eta is not None:
        text += f"; deleted by the broker: {_in(sums.retention_eta)}"
    return text


def _messages(count: int, style: Style) -> str:
    return counted(count, "message", shown(count, ColumnKind.COUNT, style))


def _in(seconds: float) -> str:
    text = duration(seconds)
    return text if text == "never" else f"in {text}"


def _aged(text: str, age: float | None) -> str:
    return text if age is None else f"{text}, the oldest {duration(age)} old"


def _members(group: GroupStatus) -> str:
    if group.members is None:
        return "not known"
    if not group.members:
        return "nobody is online"
    text = f"{len(group.members)} online: {', '.join(map(printable, group.members))}"
    return text + (
        f"; without a queue: {', '.join(map(printable, group.idle))}" if group.idle else ""
    )


def _rows(lines: Sequence[Line]) -> Iterator[QueueStatus]:
    return (line.row for line in lines if line.row is not None)


def _queues(lines: Sequence[Line]) -> CommandOutput:
    """A line a queue; what is the same in all of them, or shown below, is left out."""
    shown_elsewhere = ("group", "key", "attempts", "cause")
    fields = [it for it in fields_of(Level.QUEUE) if it.column.name not in shown_elsewhere]
    rows = [[it.of(line) for it in fields] for line in lines]
    return CommandOutput([it.column for it in fields], rows)


def _heads(at: float, lines: Sequence[Line]) -> CommandOutput:
    columns = (
        Column("first not finished"),
        Column("offset", ColumnKind.NUMBER),
        Column("key"),
        Column("tags", wide=True),
        Column("age", ColumnKind.SECONDS),
        Column("bytes", ColumnKind.COUNT, wide=True),
        Column("attempts", ColumnKind.COUNT),
        Column("reconsumed", ColumnKind.COUNT, wide=True),
        Column("failure"),
    )
    rows = [
        (
            str(row.queue),
            head.offset,
            None if head.key is None else escaped(head.key),
            head.tags,
            row.head_age if row.head_age is not None else max(0.0, at - head.stored_at),
            head.size,
            head.attempts,
            head.reconsumed,
            head.fingerprint,
        )
        for row in _rows(lines)
        if (head := row.head) is not None
    ]
    return CommandOutput(columns, rows)


def _parked(lines: Sequence[Line]) -> CommandOutput:
    columns = (
        Column("parked in"),
        Column("key"),
        Column("messages", ColumnKind.COUNT),
        Column("next offset", ColumnKind.NUMBER),
    )
    rows = [
        (str(row.queue), escaped(str(each.key)), each.messages, each.next)
        for row in _rows(lines)
        for each in row.parked or ()
    ]
    return CommandOutput(columns, rows)


EXAMPLES = """\b
Examples:
  orderly backlog describe shipping
  orderly backlog describe shipping --samples 3 -o wide     # with rates
  orderly backlog describe shipping -o json
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@groups_options(required=True)
@redact_option
@pace_options
@format_options(*OF_BACKLOGS)
@common_options
@click.pass_context
def describe(
    ctx: click.Context,
    *,
    names: Names,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """Show everything that is known about GROUP... (names or globs).

    This includes topics and queues with offsets and owners, members, the first unfinished messages,
    parked keys, dead letters, and what is wrong with the group as a whole.
    """
    settings = settings_of(ctx)
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    if form.for_reader:
        color = settings.use_color()
        style = form.style(color=color)
        describe_one = partial(
            description, snapshot.at, style=style, everything=form.output == "wide"
        )
        click.echo(
            "\n\n".join(describe_one(group) for group in snapshot.groups.values()), color=color
        )
    else:
        cut = ListingOptions(Level.QUEUE, retry=True)
        show(listing(snapshot, lines_of(snapshot, cut), cut), form, settings)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
