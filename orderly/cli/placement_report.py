"""What `orderly audit placement` found, as text and as a document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import Any

from orderly.cli.formats import Answer, Column, Format, Kind, written
from orderly.cli.text import printable
from orderly.foreign_text import escaped, hidden
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement.findings import Findings
from orderly.monitoring.placement.sightings import Sighting
from orderly.monitoring.texts import counted, iso_time
from orderly.selectors import KEYED

SCHEMA = "orderly.placement/v1"
_TOP = 10  # keys in the table
_MOST = 1000  # keys in the document
_WIDTH = 100
_UNKNOWN = "none known"


@dataclass(frozen=True, slots=True)
class Report:
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


def text(report: Report, form: Format, *, color: bool) -> str:
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
        parts.append(f"{heading}\n{written(_split(report), form, color=color)}")
    return "\n\n".join(parts)


def _placements(report: Report) -> Answer:
    """A line a way of placing keys."""
    found = report.found
    columns = [Column("placed by"), Column("queues", Kind.COUNT), Column("keys", Kind.COUNT),
               Column("messages", Kind.COUNT)]  # fmt: skip
    rows: list[tuple[str, int | None, int, int]] = [
        (" or ".join(each.selectors), each.queues, len(each.seen), each.messages)
        for each in found.explained
    ]
    if found.unexplained:
        messages = sum(seen.messages for seen in found.unexplained)
        rows.append((_UNKNOWN, None, _keys(found.unexplained), messages))
    return Answer(columns, rows)


def _keys(seen: Iterable[Sighting]) -> int:
    """How many different ones: what no selector explains may lie in several queues."""
    return len({each.key for each in seen})


def _split(report: Report) -> Answer:
    """A line a queue of a key."""
    columns = [Column("key"), Column("queue"), Column("messages", Kind.COUNT),
               Column("first stored"), Column("last stored"), Column("placed by")]  # fmt: skip
    rows = [
        (
            escaped(report.key(seen.key)),
            _short(seen),
            seen.messages,
            iso_time(seen.first),
            iso_time(seen.last),
            " or ".join(report.found.rules_of(seen)) or _UNKNOWN,
        )
        for key in report.found.split[:_TOP]
        for seen in key
    ]
    return Answer(columns, rows)


def _short(seen: Sighting) -> str:
    return f"{seen.queue.broker_name}/{seen.queue.queue_id}"


def answer(report: Report) -> Answer:
    """For programs."""
    return Answer((), (), document=lambda: _document(report))


def _document(report: Report) -> dict[str, Any]:
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


def _fields(report: Report, seen: Sighting) -> dict[str, Any]:
    return {
        "broker": seen.queue.broker_name,
        "queue": seen.queue.queue_id,
        "messages": seen.messages,
        "first_stored": iso_time(seen.first),
        "last_stored": iso_time(seen.last),
        "selectors": list(report.found.rules_of(seen)),
    }
