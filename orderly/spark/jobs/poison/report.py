"""The report of what a group set aside. Pure but for drawing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from orderly.monitoring.reporting.charts import Bar, bars
from orderly.monitoring.reporting.words import clock
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.poison.result import Cluster, KeyRow, PoisonResult
from orderly.spark.reporting.contents import Cell, Column, Fact, Kind, Plot, Report, Section, Table
from orderly.spark.reporting.plots import heat_map

_BARS, _CLUSTERS, _KEYS, _COLUMNS = 15, 50, 100, 96  # shown of each
_CAUSE, _SAMPLE, _BODY = 160, 160, 200  # characters
_HOUR = 3600


def report(made_from: Origin, result: PoisonResult) -> Report:
    """All of it on a page."""
    sections = (*_ways(result), *_over_time(result), *_keys(result), *_unknown(result))
    return Report(
        title=f"Poison of {result.group}",
        verdict=result.verdict,
        headline=result.headline,
        origin=made_from,
        facts=tuple(_facts(result)),
        sections=sections,
    )


def _facts(result: PoisonResult) -> Iterator[Fact]:
    totals = result.totals
    yield Fact("failed", f"{totals.failed:,}", f"messages, in {totals.ways:,} ways")
    yield Fact("waiting", f"{totals.waiting:,}", f"messages of {totals.parked_keys:,} keys")
    yield Fact("behind them", f"{totals.behind:,}", "messages, for the order")
    yield Fact("dead letters", f"{totals.dead:,}", f"{totals.unplaced:,} of unknown place")
    yield Fact("order broken", f"{totals.went_on_keys:,}", "keys that went on")
    if totals.unreadable:
        yield Fact("not readable", f"{totals.unreadable:,}", "stored messages")


def _ways(result: PoisonResult) -> Iterator[Section]:
    if not result.clusters:
        return
    numbered = list(enumerate(result.clusters, 1))
    shown = [
        Bar(_name(number, it), it.messages, f"{it.messages:,}, {it.keys:,} keys")
        for number, it in numbered[:_BARS]
    ]
    headings = ("messages", "keys", "behind", "waiting")
    table = Table(
        [Column("what failed"), *(Column(it, Kind.COUNT) for it in headings)],
        [
            (_name(number, it), it.messages, it.keys, it.behind, it.waiting)
            for number, it in numbered[:_CLUSTERS]
        ],
        max(0, result.totals.ways - _CLUSTERS),
        of="way to fail",
    )
    text = (
        "Parked messages are grouped by the failure's fingerprint, which is made of what the code"
        " says, or by the reason where there is none. Dead letters carry neither: they are grouped"
        " by topic and tag.\n\nBehind: messages that did not fail and wait for the order of their"
        " key."
    )
    plot = Plot("Messages by way of failing", bars("ways", shown))
    yield Section("What failed alike", text, (plot,), table)
    yield _said(numbered[:_CLUSTERS])


def _name(number: int, it: Cluster) -> str:
    return f"{number}. {it.cause[:_CAUSE]}"


def _said(numbered: Sequence[tuple[int, Cluster]]) -> Section:
    """When, and what the last one of each said; its body, where bodies were asked for."""
    has_bodies = any(it.body is not None for _, it in numbered)
    columns = [
        Column("way"),
        Column("first seen", Kind.TIME),
        Column("last seen", Kind.TIME),
        Column("the last one said"),
    ]
    rows: list[tuple[Cell, ...]] = [
        (f"{number}.", it.first_at, it.last_at, it.sample[:_SAMPLE]) for number, it in numbered
    ]
    if has_bodies:
        columns.append(Column("its body", Kind.KEY))
        rows = [(*row, _body(it)) for row, (_, it) in zip(rows, numbered, strict=True)]
    return Section("The last of each", table=Table(columns, rows, of="way to fail"))


def _body(it: Cluster) -> str | None:
    return None if it.body is None else it.body[:_BODY].decode("utf-8", "backslashreplace")


def _over_time(result: PoisonResult) -> Iterator[Section]:
    times = [at for points in result.trend.values() for at, _ in points]
    if not times:
        return
    last, first = max(times), min(times)
    first = max(first, last - (_COLUMNS - 1) * result.piece)
    pieces = [first + n * result.piece for n in range(int((last - first) // result.piece) + 1)]
    numbered = [(n, it) for n, it in enumerate(result.clusters[:_BARS], 1) if it.id in result.trend]
    values = [[dict(result.trend[it.id]).get(at) for at in pieces] for _, it in numbered]
    is_hourly = result.piece == _HOUR
    labels = [clock(at)[11:13] if is_hourly else clock(at)[5:10] for at in pieces]
    rows = [f"{n}. {it.cause}" for n, it in numbered]
    picture = heat_map("trend", rows, labels, values, "messages")
    caption = f"Failed messages {'an hour' if is_hourly else 'a day'}, by way of failing"
    note = f"From {clock(pieces[0])} to {clock(pieces[-1] + result.piece)}."
    yield Section("Over time", plots=(Plot(caption, picture, note),))


def _keys(result: PoisonResult) -> Iterator[Section]:
    if not result.keys:
        return
    table = Table(
        [
            Column("key", Kind.KEY),
            Column("topic"),
            Column("waiting", Kind.COUNT),
            Column("dead letters", Kind.COUNT),
            Column("stored behind", Kind.COUNT),
            Column("consumed behind", Kind.COUNT),
            Column("last", Kind.TIME),
        ],
        [_key_cells(it) for it in result.keys[:_KEYS]],
        max(0, result.totals.keys - min(len(result.keys), _KEYS)),
        of="key",
    )
    text = (
        "A parked key waits, and its order holds. A dead letter's key goes on without it: what was"
        " consumed behind it broke the key's order. Not known: the original has expired, or the"
        " dead letter has no key."
    )
    yield Section("Keys", text, table=table)


def _key_cells(it: KeyRow) -> tuple[Cell, ...]:
    key = it.key if it.key is not None else "no key"
    shown = f"--int {key}" if it.key_is_int else key
    return (shown, it.topic, it.waiting, it.dead, it.later, it.went_on, it.last_at)


def _unknown(result: PoisonResult) -> Iterator[Section]:
    if result.unknown:
        columns = [Column("queue"), Column("why")]
        text = "What is parked of these queues could not be read; it is not counted as nothing."
        yield Section("Not known", text, table=Table(columns, result.unknown, of="queue"))
