"""The report of a history: promises broken, lag over time, hours of the week, standstills, gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.charts import Bar, bars, lines
from orderly.monitoring.reporting.words import count, duration, plural, share
from orderly.spark.jobs.backlog.findings import Findings, Row, promises, where
from orderly.spark.jobs.backlog.plots import Period, timeline
from orderly.spark.jobs.origin import Origin
from orderly.spark.reporting.contents import Column, Fact, Kind, Plot, Report, Section, Table
from orderly.spark.reporting.plots import heat_map

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_HOURS = tuple(f"{hour:02}" for hour in range(24))
_SHOWN = 20  # groups in the table
_BARS = 12  # queues in the plot
_LANES = 12  # rows of the timeline


def report(findings: Findings, origin: Origin) -> Report:
    """Write it."""
    return Report(
        title="History of backlogs",
        verdict=findings.verdict,
        headline=findings.headline,
        origin=origin,
        facts=_facts(findings),
        sections=[
            section
            for section in (
                _groups(findings),
                _over_time(findings),
                _incidents(findings),
                _queues(findings),
                _season(findings),
                _stuck(findings),
                _gaps(findings),
            )
            if section is not None
        ],
    )


def _facts(it: Findings) -> list[Fact]:
    worst = max(it.groups, key=lambda group: group["most"] or -1)
    parts = [_measured(group) for group in it.groups]
    return [
        Fact("time", duration(round(it.end - it.begin)), "from the first snapshot to the last"),
        Fact("groups", count(len(it.groups)), plural(it.queue_count, "queue")),
        Fact("incidents", count(it.incident_count), promises(it.limits) or "no promise was given"),
        Fact("standstills", count(it.stuck_count), "of queues: a backlog, and no commit"),
        Fact("most behind", count(worst["most"]), f"messages, {worst['group']}"),
        Fact("measured", share(min(parts)), "of the time, of the group seen least"),
    ]


def _measured(group: Row) -> float:
    """The part of its time in which a group was measured."""
    seconds = group["end"] - group["begin"]
    return float(group["measured_seconds"] / seconds) if seconds else float(group["measured"] > 0)


# --- groups and queues ---------------------------------------------------------------------------

_FIGURES = (
    ("Last", "last", Kind.COUNT),
    ("Median", "median", Kind.COUNT),
    ("p95", "p95", Kind.COUNT),
    ("Most", "most", Kind.COUNT),
    ("Oldest", "oldest", Kind.SECONDS),
    ("In/s", "in_rate", Kind.NUMBER),
    ("Out/s", "out_rate", Kind.NUMBER),
    ("Drains/s", "drain_rate", Kind.NUMBER),
    ("Grows/h", "growth", Kind.NUMBER),
    ("Broken for", "breached_seconds", Kind.SECONDS),
    ("Stuck for", "stuck_seconds", Kind.SECONDS),
)


def _table(first: str, rows: Sequence[Row], left_out: int, of: str) -> Table:
    columns = [Column(first), *(Column(heading, kind) for heading, _, kind in _FIGURES)]
    return Table(
        columns,
        [[where(row), *(_cell(row[name], kind) for _, name, kind in _FIGURES)] for row in rows],
        left_out,
        of,
    )


def _cell(value: float | None, kind: Kind) -> float | None:
    return value if value is None or kind is not Kind.COUNT else round(value)


def _groups(it: Findings) -> Section:
    return Section(
        "Groups",
        "Messages behind; Drains/s is what was committed while some waited, Grows/h the trend over"
        " all of the time. What was not measured counts nowhere.",
        table=_table("Group", it.groups[:_SHOWN], len(it.groups[_SHOWN:]), "group"),
    )


def _queues(it: Findings) -> Section:
    rows = it.queues
    shown = [
        Bar(
            where(row),
            row["most"],
            f"{count(row['most'])}, p95 {count(round(row['p95']))}",
            Verdict.CRITICAL if row["incidents"] else Verdict.OK,
        )
        for row in rows[:_BARS]
        if row["most"]
    ]
    caption = "Most messages behind, by queue; red: broke a promise"
    return Section(
        "Worst queues",
        "" if shown else "No queue was ever behind.",
        plots=[Plot(caption, bars("queues", shown))] if shown else (),
        table=_table("Queue", rows, it.queue_count - len(rows), "queue"),
    )


# --- over time -----------------------------------------------------------------------------------


def _over_time(it: Findings) -> Section | None:
    if not it.curve:
        return None
    plots = [_curve(it, "backlog", "Messages behind")]
    if "head_age" in it.limits:
        plots.append(_curve(it, "head_age", "Seconds for which the oldest message waits"))
    return Section(
        "Lag over time",
        f"The most of each {duration(round(it.step))}, of the groups in most trouble; UTC. A line"
        " stops where nothing was measured.",
        plots=plots,
    )


def _curve(it: Findings, measure: str, caption: str) -> Plot:
    points: dict[str, dict[float, float | None]] = defaultdict(dict)
    for row in it.curve:
        points[row["group"]][row["at"]] = row[measure]
    grid = list(_grid(it))
    shown = {name: [(at, known.get(at)) for at in grid] for name, known in points.items()}
    if measure in it.limits:
        shown["promised"] = [(at, it.limits[measure]) for at in grid]
    return Plot(caption, lines(f"curve-{measure}", shown, dots=False))


def _grid(it: Findings) -> Iterator[float]:
    """The beginnings of all steps."""
    first, last = (int(at // it.step) for at in (it.begin, it.end))
    return (number * it.step for number in range(first, last + 1))


def _incidents(it: Findings) -> Section | None:
    if not it.limits:
        return None
    if not it.incident_count:
        return Section("Promises", f"Kept wherever it was measured: {promises(it.limits)}.")
    columns = [Column("Where"), Column("Begin", Kind.TIME), Column("End", Kind.TIME),
               Column("For", Kind.SECONDS), Column("Ended"), Column("Worst"),
               Column("Promised")]  # fmt: skip
    rows = [
        [where(row), row["begin"], row["end"], row["end"] - row["begin"], row["ended"],
         _value(row, "worst"), _value(row, "limit")]
        for row in it.incidents
    ]  # fmt: skip
    plot = Plot(
        "Red: a promise broken; yellow: a standstill; hatched: not measured",
        timeline("incidents", _lanes(it), it.begin, it.end),
    )
    text = (
        f"Promised: {promises(it.limits)}, of a group and of each queue. The table has the longest"
        f" incidents of both; of groups there are {it.incident_count:,}."
    )
    return Section("Promises broken", text, [plot], Table(columns, rows, of="incident"))


def _value(row: Row, name: str) -> str:
    return duration(row[name]) if row["measure"] == "head_age" else count(int(row[name]))


def _lanes(it: Findings) -> dict[str, dict[str, list[Period]]]:
    """The periods of whoever has the longest incidents."""
    lanes: dict[str, dict[str, list[Period]]] = {}
    for row in it.incidents:
        if where(row) in lanes or len(lanes) < _LANES:
            lanes.setdefault(where(row), defaultdict(list))["broken"].append(_period(row))
    for kind, rows in (("stuck", it.stuck), ("gap", it.gaps)):
        for row in rows:
            if where(row) in lanes:
                lanes[where(row)][kind].append(_period(row))
    return lanes


def _period(row: Row) -> Period:
    return row["begin"], row["end"]


# --- hours of the week ---------------------------------------------------------------------------


def _season(it: Findings) -> Section | None:
    groups = list(dict.fromkeys(row["group"] for row in it.season))
    if not groups:
        return None
    plots = [
        Plot(f"{name}: mean backlog by hour (UTC) and weekday", _map(f"season-{place}", it, name))
        for place, name in enumerate(sorted(groups))
    ]
    return Section(
        "Hours of the week", "An hour that was never measured is left empty; 0 has a colour.", plots
    )


def _map(name: str, it: Findings, group: str) -> str:
    cells = {
        (row["weekday"] - 1, row["hour"]): row["mean"] for row in it.season if row["group"] == group
    }
    values = [[cells.get((day, hour)) for hour in range(24)] for day in range(7)]
    return heat_map(name, _DAYS, _HOURS, values, "messages")


# --- standstills and gaps ------------------------------------------------------------------------


def _stuck(it: Findings) -> Section | None:
    if not it.stuck:
        return None
    columns = [Column("Where"), Column("Begin", Kind.TIME), Column("End", Kind.TIME),
               Column("For", Kind.SECONDS), Column("Ended"),
               Column("Backlog then", Kind.COUNT),
               Column("Came meanwhile", Kind.COUNT)]  # fmt: skip
    rows = [
        [where(row), row["begin"], row["end"], row["end"] - row["begin"], row["ended"],
         row["backlog"], row["came"]]
        for row in it.stuck
    ]  # fmt: skip
    return Section(
        "Standstills",
        "Messages waited and nothing was committed. The longest, of groups and queues.",
        table=Table(columns, rows, of="standstill"),
    )


def _gaps(it: Findings) -> Section:
    if not it.gap_count:
        return Section("Gaps", "Every group was measured all the time.")
    columns = [Column("Group"), Column("From", Kind.TIME), Column("To", Kind.TIME),
               Column("For", Kind.SECONDS)]  # fmt: skip
    rows = [[where(row), row["begin"], row["end"], row["end"] - row["begin"]] for row in it.gaps]
    return Section(
        "Gaps",
        "The backlog of these groups was not known, or not of all their queues. Nothing is said of"
        " these times.",
        table=Table(columns, rows, it.gap_count - len(rows), "gap"),
    )
