"""`orderly placement`: do all producers of a topic put keys into the same queues?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from textwrap import fill
from typing import Any

import click

from orderly.cli.command import OrderlyCommand
from orderly.cli.key_reading import patience_option, print_gaps, read_stored_keys, sample_option
from orderly.cli.output import CommandOutput, Format, format_options, show, written
from orderly.cli.redacting import redact_option
from orderly.cli.selection import topic_argument
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import printable
from orderly.foreign_text import escaped, hidden
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement import Findings, Sighting, judge
from orderly.monitoring.texts import Column, ColumnKind, counted, iso_time
from orderly.selectors import KEYED

SCHEMA = "orderly.placement/v1"
_TOP = 10  # keys in the table
_MOST = 1000  # keys in the document
_WIDTH = 100
_UNKNOWN = "none known"


@dataclass(frozen=True, slots=True)
class PlacementReport:
    """What was found.

    Attributes:
        found: by the sample.
        errors: of brokers that did not answer, by name.
        planned: how many messages were to be read.
        redact: whether keys are to be hashes.
    """

    found: Findings
    errors: Mapping[str, str]
    planned: int
    redact: bool

    @property
    def verdict(self) -> Verdict:
        """What was found is found; nothing found counts only if all could be read."""
        if self.found.verdict is Verdict.OK and self.errors:
            return Verdict.UNKNOWN
        return self.found.verdict

    def key(self, key: str) -> str:
        """What is shown of a key."""
        return hidden(key) if self.redact else key


def report_text(report: PlacementReport, form: Format, *, color: bool) -> str:
    """All of it, for a reader."""
    found = report.found
    heading = f"{found.topic}: {found.layout}; {counted(found.messages, 'message')} read."
    parts = [printable(heading)]  # brokers choose their names
    parts.append(
        "\n".join(fill(f"- {line}", _WIDTH, subsequent_indent="  ") for line in found.say())
    )
    if found.mixed:
        parts.append(written(_placements(report), form, color=color))
    if found.split:
        more = len(found.split) - _TOP
        heading = f"Keys in several queues, the most frequent {'ten' if more > 0 else 'first'}:"
        parts.append(f"{heading}\n{written(_split(report, _TOP), form, color=color)}")
    return "\n\n".join(parts)


def _placements(report: PlacementReport) -> CommandOutput:
    """A line a way of placing keys."""
    found = report.found
    columns = [
        Column("placed by"),
        Column("queues", ColumnKind.COUNT),
        Column("keys", ColumnKind.COUNT),
        Column("messages", ColumnKind.COUNT),
    ]
    rows: list[tuple[str, int | None, int, int]] = [
        (" or ".join(each.selectors), each.queues, len(each.seen), each.messages)
        for each in found.explained
    ]
    if found.unexplained:
        messages = sum(seen.messages for seen in found.unexplained)
        rows.append((_UNKNOWN, None, _keys(found.unexplained), messages))
    return CommandOutput(columns, rows)


def _keys(seen: Iterable[Sighting]) -> int:
    """How many different ones: what no selector explains may lie in several queues."""
    return len({each.key for each in seen})


def _split(report: PlacementReport, most: int) -> CommandOutput:
    """A line a queue of a key, of the `most` frequent."""
    columns = [Column("key"), Column("queue"), Column("messages", ColumnKind.COUNT),
               Column("first stored"), Column("last stored"), Column("placed by")]  # fmt: skip
    rows = [
        (
            escaped(report.key(seen.key)),
            seen.place,
            seen.messages,
            iso_time(seen.first),
            iso_time(seen.last),
            " or ".join(report.found.rules_of(seen)) or _UNKNOWN,
        )
        for key in report.found.split[:most]
        for seen in key
    ]
    return CommandOutput(columns, rows)


def report_answer(report: PlacementReport) -> CommandOutput:
    """For programs."""
    return replace(_split(report, _MOST), document=lambda: _document(report))


def _document(report: PlacementReport) -> dict[str, Any]:
    found = report.found
    return {
        "schema": SCHEMA,
        "topic": found.topic,
        "layout": str(found.layout),
        "verdict": report.verdict.name,
        "messages_planned": report.planned,
        "messages_read": found.messages,
        "without_key": found.keyless,
        "keys": found.keys,
        "keys_in_several_queues": len(found.split),
        "placements": [
            {
                "selectors": list(each.selectors),
                "producers": [KEYED[name].producers for name in each.selectors],
                "queues": each.queues,
                "keys": len(each.seen),
                "messages": each.messages,
            }
            for each in found.explained
        ],
        "unexplained_keys": _keys(found.unexplained),
        "fitting_selectors": list(found.fitting),
        "split": [
            {"key": report.key(key[0].key), "queues": [_fields(report, seen) for seen in key]}
            for key in found.split[:_MOST]
        ],
        "said": list(found.say()),
        "errors": dict(report.errors),
    }


def _fields(report: PlacementReport, seen: Sighting) -> dict[str, Any]:
    return {
        "broker": seen.queue.broker_name,
        "queue": seen.queue.queue_id,
        "messages": seen.messages,
        "first_stored": iso_time(seen.first),
        "last_stored": iso_time(seen.last),
        "selectors": list(report.found.rules_of(seen)),
    }


# --- the command ----------------------------------------------------------------------------------


EXAMPLES = """\b
Examples:
  orderly placement orders
  orderly placement orders -n 50000 -o json
  orderly placement orders --redact-keys hash
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@topic_argument
@sample_option
@patience_option
@redact_option
@format_options()
@common_options
@click.pass_context
def placement(
    ctx: click.Context,
    *,
    topic: str,
    limit: int,
    timeout: float,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Look for keys of TOPIC that are in several queues, and show which selector placed them.

    A key in several queues has no order. That happens when producers in other languages use another
    selector, which they do by default, and when the number of queues changed.

    Reading leaves no trace: nothing is pulled, and no group is created.
    """
    settings = settings_of(ctx)
    found = read_stored_keys(settings, topic, limit, timeout)
    findings = judge(found.layout, found.topic, found.seen)
    report = PlacementReport(findings, found.errors, found.planned, redact=redact_keys is not None)
    if form.for_reader:
        click.echo(
            report_text(report, form, color=settings.use_color()), color=settings.use_color()
        )
    else:
        show(report_answer(report), form, settings)
    print_gaps(found)
    return int(report.verdict)
