"""`orderly skew`: how unevenly a topic's messages lie in its queues, and which keys cause it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.key_reading import patience_option, print_gaps, read_stored_keys, sample_option
from orderly.cli.output import CommandOutput, Format, format_options, show, written
from orderly.cli.redacting import redact_option
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import printable
from orderly.foreign_text import escaped, hidden
from orderly.monitoring.backlog.evaluate import queue_skew
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Cell, Column, ColumnKind, counted

if TYPE_CHECKING:
    from orderly.monitoring.backlog.snapshot import QueueSkew
    from orderly.monitoring.collecting.stored_keys import StoredKeys
    from orderly.monitoring.placement import Sighting

    Key = tuple[Sighting, ...]
    Name = Callable[[str], str]

SCHEMA = "orderly.skew/v1"
_NUMBER = ColumnKind.NUMBER  # right-aligned

EXAMPLES = """\b
Examples:
  orderly skew orders
  orderly skew orders -n 20000 --top 50 -o json
  orderly skew orders --redact-keys hash
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@topic_argument
@sample_option
@click.option(
    "--top",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    metavar="N",
    help="Show the first N keys.",
)
@patience_option
@redact_option
@format_options()
@common_options
@click.pass_context
def skew(
    ctx: click.Context,
    *,
    topic: str,
    limit: int,
    top: int,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Show how unevenly the messages of TOPIC are spread over its queues, and the largest keys.

    Queues are counted over all messages. Keys are counted in a sample of the newest messages; each
    queue's part of the sample is as large as its part of the topic.

    Reading leaves no trace: nothing is pulled, and no group is created.
    """
    settings = settings_of(ctx)
    found = read_stored_keys(settings, topic, limit, timeout)
    keys = found.seen.top(top)
    name = hidden if redact_keys is not None else str
    if form.for_reader:
        color = settings.use_color()
        click.echo(_text(found, _keys(found, keys, name), form, color=color), color=color)
    else:
        columns = [Column("part"), Column("name"), Column("messages", _NUMBER)]
        lines = [*_lines(found, keys, name)]
        document = partial(_document, found, keys, name)
        show(CommandOutput([*columns, Column("share", _NUMBER)], lines, document), form, settings)
    print_gaps(found)
    return int(Verdict.UNKNOWN if found.errors else Verdict.OK)


def _total(found: StoredKeys) -> int | None:
    """What all queues hold; None: not known of one."""
    known = [count for count in found.held.values() if count is not None]
    return sum(known) if len(known) == len(found.held) else None


def _skew(found: StoredKeys) -> QueueSkew | None:
    return queue_skew(tuple(found.held), tuple(found.held.values()))


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _keyed(found: StoredKeys) -> int:
    """Messages with a key: shares of keys are shares of these."""
    return found.seen.messages - found.seen.keyless


def _messages(key: Key) -> int:
    return sum(seen.messages for seen in key)


# --- for a reader --------------------------------------------------------------------------------


def _text(found: StoredKeys, keys: CommandOutput, form: Format, *, color: bool) -> str:
    parts = [_heading(found), written(_queues(found), form, color=color)]
    if keys.rows:
        parts.append(f"{_about_keys(found)}\n{written(keys, form, color=color)}")
    else:
        parts.append(_about_keys(found))
    return "\n\n".join(parts)


def _heading(found: StoredKeys) -> str:
    total, figures = _total(found), _skew(found)
    queues = f"{printable(found.topic)}: {counted(len(found.held), 'queue')}"
    if total is None:
        return f"{queues}; not all of them could be read, so how uneven they are is not known."
    if figures is None:
        return f"{queues}; nothing is stored."
    return (
        f"{queues}; {counted(total, 'message', f'{total:,}')} stored.\nThe fullest queue holds"
        f" {figures.max_over_mean:.1f} times the mean, {percent(figures.top_share)} of all; Gini"
        f" {figures.gini:.2f}."
    )


def _queues(found: StoredKeys) -> CommandOutput:
    """A line a queue, the fullest first."""
    total, number = _total(found), len(found.held)
    columns = [Column("queue"), Column("messages", ColumnKind.COUNT), Column("share", _NUMBER),
               Column("of mean", _NUMBER)]  # fmt: skip
    rows: list[Sequence[Cell]] = []
    for queue, count in sorted(found.held.items(), key=lambda each: -(each[1] or 0)):
        share = _share(count, total)
        shares = (None, None) if share is None else (percent(share), f"{share * number:.2f}")
        rows.append((str(queue), count, *shares))
    return CommandOutput(columns, rows)


def _about_keys(found: StoredKeys) -> str:
    seen, total = found.seen, _total(found)
    stored = f" of {total:,} stored" if total is not None else ""
    line = f"{counted(seen.keys, 'key')} in {counted(seen.messages, 'message')} read{stored}"
    if seen.keyless:
        line += f"; {seen.keyless:,} have no key (Java's producers do not store it)"
    split = len(seen.split())
    if split:
        line += f"; {counted(split, 'key')} in several queues: orderly placement shows why"
    return f"{line}."


def _keys(found: StoredKeys, keys: Sequence[Key], name: Name) -> CommandOutput:
    columns = [Column("key"), Column("messages", ColumnKind.COUNT), Column("share", _NUMBER),
               Column("queue")]  # fmt: skip
    rows = [
        (
            escaped(name(key[0].key)),
            _messages(key),
            percent(_messages(key) / _keyed(found)),
            key[0].place if len(key) == 1 else "several",
        )
        for key in keys
    ]
    return CommandOutput(columns, rows)


def percent(share: float) -> str:
    """A share as a reader likes it: 31 %, 2.5 %, 0.04 %."""
    digits = 0 if share >= 0.1 or share == 0 else 1 if share >= 0.01 else 2
    return f"{100 * share:.{digits}f} %"


# --- for programs --------------------------------------------------------------------------------


def _lines(found: StoredKeys, keys: Sequence[Key], name: Name) -> list[Sequence[Cell]]:
    """Queues, then keys, in one list."""
    queues: list[Sequence[Cell]] = [
        ("queue", str(queue), count, _share(count, _total(found)))
        for queue, count in found.held.items()
    ]
    return queues + [
        ("key", name(key[0].key), _messages(key), _messages(key) / _keyed(found)) for key in keys
    ]


def _document(found: StoredKeys, keys: Sequence[Key], name: Name) -> dict[str, Any]:
    figures, seen, total = _skew(found), found.seen, _total(found)
    return {
        "schema": SCHEMA,
        "topic": found.topic,
        "layout": str(found.layout),
        "messages": total,
        "skew": None if figures is None else asdict(figures) | {"busiest": str(figures.busiest)},
        "queues": [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "messages": count,
                "share": _share(count, total),
            }
            for queue, count in found.held.items()
        ],
        "keys": {
            "messages_planned": found.planned,
            "messages_read": seen.messages,
            "without_key": seen.keyless,
            "different": seen.keys,
            "in_several_queues": len(seen.split()),
            "top": [
                {
                    "key": name(key[0].key),
                    "messages": _messages(key),
                    "share": _messages(key) / _keyed(found),
                    "queues": [each.place for each in key],
                }
                for key in keys
            ],
        },
        "errors": dict(found.errors),
    }
