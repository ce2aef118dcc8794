"""The report of an audit: verdict, worst keys with pictures, when and where, evidence. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Cell, Column, ColumnKind
from orderly.report.charts import Bar, Dot, Stick, bars, columns, order_picture
from orderly.report.contents import Fact, Plot, Report, Section, Table
from orderly.report.words import axis_times, count, duration, plural
from orderly.spark.jobs.audit.figures import AuditFigures, headline, meaning
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.origin import Origin


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message in a picture.

    Attributes:
        at: when it was stored, seconds since the epoch.
        wrong: whether it is evidence.
    """

    queue: str
    offset: int
    seq: int
    at: float
    wrong: bool


@dataclass(frozen=True, slots=True)
class KeyPicture:
    """A key's messages around the first thing that is wrong, in the order of storing."""

    key: str
    places: tuple[ShownMessage, ...]


@dataclass(frozen=True, slots=True)
class ShownRows:
    """What is shown.

    Attributes:
        keys, evidence: rows of the tables as dicts, the worst first.
        queues, losses: all rows, by queue.
        times: (start of a span in seconds since the epoch, kind, how many).
        span: length of a span, seconds.
        pictures: of the worst keys.
    """

    keys: tuple[dict[str, Any], ...] = ()
    evidence: tuple[dict[str, Any], ...] = ()
    queues: tuple[dict[str, Any], ...] = ()
    losses: tuple[dict[str, Any], ...] = ()
    times: tuple[tuple[float, str, int], ...] = ()
    span: float = 1.0
    pictures: tuple[KeyPicture, ...] = ()


# --- the report -----------------------------------------------------------------------------------


Row = Mapping[str, Any]

_BARS, _QUEUES = 16, 200  # queues in the plot, and in a table
_COLORS = 5  # of series in a picture


def report(
    found: AuditFigures, rows: ShownRows, settings: AuditSettings, made_from: Origin
) -> Report:
    """Write it.

    Args:
        found: the figures.
        rows: what is shown of the tables.
        settings: of the audit.
        made_from: what was read.
    """
    sections = [
        _keys(found, rows, settings),
        _evidence(found, rows, settings),
        _when(rows),
        _queues(rows),
        _losses(found, rows),
        Section("What was judged", "\n\n".join(meaning(found, settings))),
        made_from.section(),
    ]
    topics = dict.fromkeys(each.queue.topic for each in made_from.read)
    return Report(
        title=f"Order of {', '.join(topics) or 'a topic'}",
        verdict=found.verdict,
        headline=headline(found, settings.seq_property),
        at=made_from.at,
        made_by=made_from.made_by,
        facts=_facts(found),
        sections=[section for section in sections if section is not None],
    )


def _facts(found: AuditFigures) -> list[Fact]:
    return [
        Fact("judged", count(found.judged), f"of {plural(found.messages, 'message')}"),
        Fact("keys", count(found.keys), f"{count(found.wrong)} with errors"),
        Fact("inversions", count(found.inversions), "a lower number after a higher one"),
        Fact("across queues", count(found.across), f"{plural(found.moved, 'key')} in several"),
        Fact("gaps", count(found.gaps), f"{plural(found.missing, 'number')} missing"),
        Fact("repeats", count(found.repeats), plural(found.repeated_sends, "repeated send")),
    ]  # fmt: skip


# --- keys ----------------------------------------------------------------------------------------


def _keys(found: AuditFigures, rows: ShownRows, settings: AuditSettings) -> Section | None:
    if not rows.keys:
        return None
    headings = (
        Column("Key", ColumnKind.KEY),
        *(
            Column(name, ColumnKind.COUNT)
            for name in (
                "Messages", "Queues", "Inversions", "Across", "Gaps", "Missing", "Repeats",
            )
        ),
        Column("First"),
        Column("Last"),
    )  # fmt: skip
    shown = [
        (
            row["key"], row["messages"], row["queues"], row["inversions"], row["across"],
            row["gaps"], row["missing"], row["repeats"], _number(row["min_seq"], settings),
            _number(row["max_seq"], settings),
        )
        for row in rows.keys
    ]  # fmt: skip
    plots = [_picture(number, it, settings) for number, it in enumerate(rows.pictures)]
    return Section(
        "Keys with errors",
        "If a key is in order, its line rises from left to right. Messages are in the order in"
        " which they were stored, around the key's first error.",
        plots=plots,
        tables=[Table(headings, shown, found.wrong - len(shown), "key")],
    )


def _picture(number: int, it: KeyPicture, settings: AuditSettings) -> Plot:
    queues = list(dict.fromkeys(place.queue for place in it.places))
    known = dict(zip(queues, [*queues[: _COLORS - 1], *["others"] * len(queues)], strict=False))
    by_offset = len(queues) == 1
    dots = [
        Dot(
            x=place.offset if by_offset else order,
            y=place.seq,
            series=known[place.queue],
            wrong=place.wrong,
        )
        for order, place in enumerate(it.places)
    ]
    y_label = "number" if settings.by_seq else "born (ms)"
    x_label = "queue offset" if by_offset else "order of storing"
    return Plot(f"Key {it.key}", order_picture(f"key-{number}", dots, x_label, y_label))


def _number(value: int | None, settings: AuditSettings) -> Cell:
    """A number as it is; a time of birth as a time."""
    if value is None or settings.by_seq:
        return None if value is None else str(value)
    return axis_times([value / 1000])[0]


# --- evidence ------------------------------------------------------------------------------------


def _evidence(found: AuditFigures, rows: ShownRows, settings: AuditSettings) -> Section | None:
    if not rows.evidence:
        return None
    headings = (
        Column("What"), Column("Key", ColumnKind.KEY), Column("Number"), Column("Queue"),
        Column("Offset"), Column("Message id", ColumnKind.KEY), Column("Stored", ColumnKind.TIME),
        Column("After number"), Column("at offset"),
    )  # fmt: skip
    shown = [tuple(_evidence_row(row, settings)) for row in rows.evidence]
    total = found.inversions + found.across + found.gaps + found.repeats
    exact = total if not found.inexact else max(total, len(shown))
    return Section(
        "Evidence",
        "Each line shows a wrong message, and the message that proves it. The table evidence has"
        " all lines.",
        tables=[Table(headings, shown, exact - len(shown), "line")],
    )


def _evidence_row(row: Row, settings: AuditSettings) -> Iterator[Cell]:
    message, before = row["message"], row["before"]
    yield _what(row)
    yield row["key"]
    yield _number(message["seq"], settings)
    yield f"{message['broker']} {message['queue_id']}"
    yield str(message["queue_offset"])
    yield message["msg_id"]
    yield message["store_ts"].timestamp()
    yield _number(before["seq"], settings)
    elsewhere = (message["broker"], message["queue_id"]) != (before["broker"], before["queue_id"])
    yield f"{before['queue_offset']}" + f" of queue {before['queue_id']}" * elsewhere


def _what(row: Row) -> str:
    if row["kind"] == "gap":
        return f"gap: {row['distance']:,} missing"
    if row["kind"] == "repeat":
        other = "repeat, same id" if row["same_id"] else "repeat, another id"
        return "repeated send" if row["repeated_send"] else other
    return "inversion" if row["kind"] == "inversion" else "inversion across queues"


# --- when and where ------------------------------------------------------------------------------


def _when(rows: ShownRows) -> Section | None:
    if not rows.times:
        return None
    counts: dict[float, int] = defaultdict(int)
    for start, _, number in rows.times:
        counts[start] += number
    first, last = min(counts), max(counts)
    spans = [first + place * rows.span for place in range(round((last - first) / rows.span) + 1)]
    known = {round(start / rows.span - first / rows.span): n for start, n in counts.items()}
    sticks = [
        Stick(label, known.get(place, 0), Verdict.CRITICAL)
        for place, label in enumerate(axis_times(spans))
    ]
    caption = f"Errors by the time of storing, for each {duration(rows.span)}"
    return Section("When", plots=[Plot(caption, columns("when", sticks, "stored", mean=False))])


def _queues(rows: ShownRows) -> Section | None:
    if not rows.queues:
        return None
    headings = (
        Column("Queue"),
        *(
            Column(name, ColumnKind.COUNT)
            for name in (
                "Messages", "Keys", "Without key", "Without number", "Inversions", "Across",
                "Gaps", "Repeats",
            )
        ),
    )  # fmt: skip
    names = ("messages", "keys", "keyless", "unnumbered", *_PLURALS)
    shown = [(_queue(row), *(row[name] for name in names)) for row in rows.queues[:_QUEUES]]
    wrong = sorted((row for row in rows.queues if _wrong(row)), key=lambda row: -_wrong(row))
    found = [
        Bar(_queue(row), _wrong(row), count(_wrong(row)), Verdict.CRITICAL) for row in wrong[:_BARS]
    ]
    plots = [Plot("Errors by queue", bars("queues", found))] if found else []
    left_out = len(rows.queues) - len(shown)
    return Section("Queues", plots=plots, tables=[Table(headings, shown, left_out, "queue")])


_PLURALS = ("inversions", "across", "gaps", "repeats")


def _queue(row: Row) -> str:
    return f"{row['broker']} {row['queue_id']}"


def _wrong(row: Row) -> int:
    return sum(int(row[name]) for name in _PLURALS)


def _losses(found: AuditFigures, rows: ShownRows) -> Section | None:
    if not rows.losses:
        return None
    shown = [
        (_queue(row), str(row["first_offset"]), str(row["last_offset"]), row["lost"])
        for row in rows.losses[:_QUEUES]
    ]
    headings = (Column("Queue"), Column("From"), Column("To"), Column("Gone", ColumnKind.COUNT))
    return Section(
        "Lost",
        f"Gone before the audit read them, and not judged: {plural(found.lost, 'message')}.",
        tables=[Table(headings, shown, len(rows.losses) - len(shown), "queue")],
    )
