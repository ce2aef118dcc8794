"""The contents of a backlog report, bounded in size, the worst first."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from itertools import groupby, islice
from typing import Any, TypeVar

from orderly.foreign_text import shell_word
from orderly.monitoring.backlog.advice import in_one_line, next_steps, parked_steps
from orderly.monitoring.backlog.evaluate import Point, add_up, total
from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import MEANINGS, QueueState, Verdict, severity
from orderly.monitoring.backlog.thresholds import Thresholds, judge, queues_text
from orderly.monitoring.texts import Cell, Column, ColumnKind
from orderly.namespace import DEAD_PREFIX
from orderly.report.charts import SERIES, Bar, Stick, bars, columns, lines
from orderly.report.contents import Case, Fact, Plot, Report, Section, StateCell, Table, Trouble
from orderly.report.words import NOT_KNOWN, count, duration, left_out, plural

TOP = 20
_NAMED = 3  # groups in the first line
_SHOWN = 3  # queues of one state that are shown one by one
_QUEUE_PLOTS = 6
_COLUMNS = 64  # queues side by side
_ENOUGH = 0.95  # of the inflow: commits come every 5 s
_NO_DRAIN = "Not known: it needs samples over 30 s, for example --samples 7 --interval 5s."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Judged:
    """A group, and how bad it is: its queues, parked keys, dead and lost messages together."""

    status: GroupStatus
    verdict: Verdict

    @property
    def sums(self) -> Sums:
        return self.status.sums


def backlog_report(
    snapshot: Snapshot,
    history: Mapping[str, Sequence[Point]] | None = None,
    *,
    samples: int = 1,
    top: int = TOP,
) -> Report:
    """What is to be said of a backlog.

    Args:
        snapshot: what was measured last.
        history: by group, its backlog over the samples, oldest first.
        samples: how many there were.
        top: most lines of each table and plot; what is left out is said.
    """
    groups = sorted(_judged(snapshot), key=_worst_first)
    silent = [each for each in snapshot.brokers.values() if each.error is not None]
    topics = [topic for group in snapshot.groups.values() for topic in group.topics.values()]
    behind = [topic for topic in topics if topic.sums.backlog]
    sections = (
        _silent(silent),
        _groups(groups, top),
        _troubles(groups[:top]),
        _behind(behind, history or {}, top),
        _queues(behind, topics, top),
        _heads(behind, snapshot.at, top),
        _parked(topics, top),
        _dead(snapshot, top),
        _brokers(snapshot, top),
    )
    totals = add_up(group.sums for group in groups)
    return Report(
        title=f"Backlog of {snapshot.cluster or 'RocketMQ'}",
        verdict=_verdict(groups, silent=bool(silent)),
        headline=_headline(groups, silent),
        at=snapshot.at,
        made_by="Made by orderly backlog report. Times are UTC.",
        facts=_facts(snapshot, totals),
        about=_about(snapshot, totals, samples),
        sections=[section for section in sections if section is not None],
    )


def first(many: Iterable[T], most: int, order: Callable[[T], Any]) -> tuple[list[T], int]:
    """The `most` smallest by `order`, smallest first, and how many more there are."""
    number = 0

    def counted() -> Iterator[T]:
        nonlocal number
        for each in many:
            number += 1
            yield each

    shown = nsmallest(most, counted(), key=order)
    return shown, number - len(shown)


def _facts(snapshot: Snapshot, totals: Sums) -> list[Fact]:
    queues, parked = plural(totals.queues, "queue"), plural(totals.parked_messages or 0, "message")
    unknown = f", {count(totals.unknown)} of {queues} not known" if totals.unknown else ""
    messages = f", {parked}" if totals.parked_messages else ""
    dead = (group.dead for group in snapshot.groups.values())
    dead_letters = total(None if it is None else it.messages for it in dead)
    return [
        Fact("backlog", count(totals.backlog), f"messages{unknown}"),
        Fact("age", duration(totals.head_age), "of the oldest waiting message"),
        Fact("ETA", worked_off(totals), "no backlog then, in the slowest queue"),
        Fact("parked", count(totals.parked_keys), f"keys{messages}"),
        Fact("dead letters", count(dead_letters), "messages"),
        Fact("lost", count(totals.lost), "deleted before they were consumed"),
    ]  # fmt: skip


def _about(snapshot: Snapshot, totals: Sums, samples: int) -> str:
    rates = f"; rates over {duration(snapshot.window)}" if snapshot.window else ""
    return (
        f"{plural(len(snapshot.groups), 'group')}, {plural(totals.queues, 'queue')},"
        f" {plural(len(snapshot.brokers), 'broker')}. {plural(samples, 'sample')}{rates};"
        f" the last scan took {duration(snapshot.scan_seconds)}."
        f" {NOT_KNOWN} means not known; it never means 0."
    )


def worked_off(sums: Sums) -> str:
    """How long until a backlog is worked off, in words.

    Of a group that keeps up some messages are always on their way: their number hardly gets
    smaller, and "never" would be a false alarm.
    """
    return "keeps up" if _keeps_up(sums) else duration(sums.drain_eta)


def _keeps_up(sums: Sums) -> bool:
    rates = (sums.in_rate, sums.out_rate)
    if sums.drain_eta != math.inf or sums.verdict is not Verdict.OK or None in rates:
        return False
    return (sums.out_rate or 0) >= _ENOUGH * (sums.in_rate or 0) > 0


# --- groups --------------------------------------------------------------------------------------


def _judged(snapshot: Snapshot) -> Iterator[_Judged]:
    thresholds = Thresholds.parse({}, {})
    for group in snapshot.groups.values():
        yield _Judged(group, judge([group], thresholds).verdict)


_PLACE = {state: place for place, state in enumerate(QueueState)}


def _worst_first(group: _Judged) -> tuple[int, int, int]:
    sums = group.sums
    return -severity(group.verdict), -(sums.backlog or 0), _PLACE[sums.state]


def _verdict(groups: Sequence[_Judged], *, silent: bool) -> Verdict:
    found = [group.verdict for group in groups] or [Verdict.UNKNOWN]
    return max((*found, Verdict.UNKNOWN) if silent else found, key=severity)


def _headline(groups: Sequence[_Judged], silent: Sequence[BrokerReading]) -> str:
    bad = [group for group in groups if group.verdict is not Verdict.OK]
    named = ", ".join(f"{it.status.group} ({_named(it)})" for it in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    if not groups:
        text = "No group was found"
    elif bad:
        text = f"{len(bad):,} of {plural(len(groups), 'group')} not in order: {named}{more}"
    else:
        text = f"All {plural(len(groups), 'group')} in order" if groups[1:] else "In order"
    mute = f"; {plural(len(silent), 'broker')} did not answer" if silent else ""
    return f"{text}{mute}."


def _named(group: _Judged) -> str:
    sums = group.sums
    if sums.state is not QueueState.OK:
        return str(sums.state)
    return "parked keys" if sums.parked_keys else "dead letters"


_GROUP_COLUMNS = (
    Column("Group"), Column("State"), Column("Backlog", ColumnKind.COUNT),
    Column("Age", ColumnKind.SECONDS), Column("In/s", ColumnKind.RATE),
    Column("Out/s", ColumnKind.RATE), Column("ETA", ColumnKind.SECONDS),
    Column("Retention", ColumnKind.SECONDS), Column("Members", ColumnKind.COUNT),
    Column("Parked", ColumnKind.COUNT), Column("Dead", ColumnKind.COUNT),
)  # fmt: skip


def _groups(groups: Sequence[_Judged], top: int) -> Section:
    if not groups:
        return Section("Groups", "No group has committed an offset.")
    table = Table(_GROUP_COLUMNS, [_group(each) for each in groups[:top]])
    return Section("Groups", tables=[table], note=_rest(groups[top:]))


def _group(group: _Judged) -> Sequence[Cell | StateCell]:
    status, sums = group.status, group.sums
    or_more = sums.unknown and sums.backlog is not None
    return (
        status.group,
        _state(group),
        f"{count(sums.backlog)} or more" if or_more else sums.backlog,
        sums.head_age,
        sums.in_rate,
        sums.out_rate,
        worked_off(sums),
        sums.retention_eta,
        None if status.members is None else len(status.members),
        sums.parked_keys,
        None if status.dead is None else status.dead.messages,
    )


def _state(group: _Judged) -> StateCell:
    """Its state in the state's own colour; beside it what else is worth a warning."""
    sums, dead = group.sums, group.status.dead
    beside = [f"PARKED {plural(sums.parked_keys, 'key')}"] if sums.parked_keys else []
    if dead is not None and dead.messages:
        beside.append(f"DEAD {plural(dead.messages, 'message')}")
    meaning = MEANINGS[sums.state]
    if sums.state is QueueState.OK:
        meaning = "consuming, but behind" if sums.backlog else "no backlog"
    verdict = sums.state_verdict if beside else group.verdict
    return StateCell(verdict, str(sums.state), meaning, beside)


def _rest(groups: Sequence[_Judged]) -> str:
    """The verdicts of the groups that have no line of their own."""
    if not groups:
        return ""
    counts = Counter(group.verdict for group in groups)
    verdicts = sorted(counts, key=severity, reverse=True)
    each = ", ".join(f"{counts[verdict]:,} {verdict.name}" for verdict in verdicts)
    behind = add_up(group.sums for group in groups).backlog or 0
    return f"{plural(len(groups), 'group')} left out: {each}; {plural(behind, 'message')} behind."


# --- why, and what to do -------------------------------------------------------------------------


def _troubles(groups: Sequence[_Judged]) -> Section | None:
    cases = [
        Case(group.status.group, group.verdict, tuple(troubles(group.status)))
        for group in groups
        if group.verdict is not Verdict.OK or group.status.findings
    ]
    return Section("Why, and what to do", cases=cases) if cases else None


def troubles(group: GroupStatus) -> Iterator[Trouble]:
    """Everything that is wrong with a group, worst first; nothing if it is in order."""
    bad = (row for row in group.rows() if row.state_verdict is not Verdict.OK)
    rows = sorted(bad, key=lambda row: (-severity(row.state_verdict), row.state))
    for _, same in groupby(rows, key=lambda row: row.state):
        yield _of_state(sorted(same, key=lambda row: -(row.backlog or 0)))
    if group.sums.parked_keys:
        yield _of_parked(group, group.sums.parked_keys)
    if group.dead is not None and group.dead.messages:
        yield Trouble(
            Verdict.WARNING,
            "DEAD",
            plural(group.dead.messages, "dead letter"),
            [f"stored in {DEAD_PREFIX}{group.group}"],
            "Look at them, fix the cause, send them again:"
            f" orderly dlq list {shell_word(group.group)}",
        )
    if group.findings:
        yield Trouble(Verdict.WARNING, "ODD", "the group as a whole", group.findings)


def _of_state(rows: Sequence[QueueStatus]) -> Trouble:
    """The queues in one state, the furthest behind first."""
    worst, more = rows[0], rows[_SHOWN:]
    facts = [f"{row.queue}: {row.cause or MEANINGS[row.state]}" for row in rows[:_SHOWN]]
    if more:
        behind = plural(sum(row.backlog or 0 for row in more), "message")
        facts.append(f"and {queues_text(len(more))} more, with {behind}")
    where = f"{queues_text(len(rows))}: {MEANINGS[worst.state]}"
    steps = in_one_line(next_steps(worst))
    return Trouble(worst.state_verdict, str(worst.state), where, facts, steps)


def _of_parked(group: GroupStatus, keys: int) -> Trouble:
    messages = plural(group.sums.parked_messages or 0, "message")
    return Trouble(
        Verdict.WARNING,
        "PARKED",
        plural(keys, "key"),
        [f"{messages} wait until somebody releases them"],
        in_one_line(parked_steps(list(group.rows()))),
    )


# --- topics --------------------------------------------------------------------------------------


def _behind(
    behind: Sequence[TopicStatus], history: Mapping[str, Sequence[Point]], top: int
) -> Section | None:
    if not behind:
        return None
    shown, more = first(behind, top, _furthest)
    backlog = bars("backlog", [_backlog_bar(topic) for topic in shown])
    plots = [
        Plot("Backlog by group and topic", backlog, left_out(more, "topic"), "messages"),
        _drain(behind, top),
    ]
    if by_group := _over_time(history):
        about = "messages, the groups furthest behind; UTC"
        plots.append(Plot("Backlog over the samples", lines("samples", by_group), "", about))
    return Section("How far behind", plots=plots)


def _furthest(topic: TopicStatus) -> int:
    return -(topic.sums.backlog or 0)


def _label(topic: TopicStatus) -> str:
    return f"{topic.group} · {topic.topic}"


def _backlog_bar(topic: TopicStatus) -> Bar:
    sums = topic.sums
    text = f"{count(sums.backlog)} {sums.state}"
    return Bar(_label(topic), sums.backlog or 0, text, sums.verdict)


def _drain(behind: Sequence[TopicStatus], top: int) -> Plot:
    """Time until backlogs are worked off, as far as known, the longest first."""
    known = (it for it in behind if it.sums.drain_eta is not None and not _keeps_up(it.sums))
    shown, more = first(known, top, lambda it: (-(it.sums.drain_eta or 0), _furthest(it)))
    svg = bars("drain", [_drain_bar(topic) for topic in shown]) if shown else ""
    about = "time until no backlog is left, at the rate of the samples; logarithmic; hatched: never"
    return Plot("ETA", svg, left_out(more, "topic") if shown else _NO_DRAIN, about)


def _drain_bar(topic: TopicStatus) -> Bar:
    eta = topic.sums.drain_eta or 0.0
    length = math.log10(1 + eta) if math.isfinite(eta) else math.inf
    return Bar(_label(topic), length, duration(eta), topic.sums.verdict)


def _over_time(
    history: Mapping[str, Sequence[Point]],
) -> dict[str, list[tuple[float, float | None]]]:
    """The groups that were furthest behind in one of the samples."""
    most = {
        name: max(point.backlog or 0 for point in points)
        for name, points in history.items()
        if len(points) > 1
    }
    names = sorted((name for name in most if most[name]), key=lambda name: -most[name])
    return {
        name: [(point.at, point.backlog) for point in history[name]]
        for name in names[: len(SERIES)]
    }


# --- queues --------------------------------------------------------------------------------------


def _queues(
    behind: Sequence[TopicStatus], topics: Sequence[TopicStatus], top: int
) -> Section | None:
    shown, _ = first(behind, top, _furthest)
    several = islice((topic for topic in shown if topic.sums.queues > 1), _QUEUE_PLOTS)
    plots = [_queue_plot(f"queues-{number}", topic) for number, topic in enumerate(several)]
    table = _uneven(topics, top)
    if table is not None:
        note = "Even means 1.0 times the mean, and Gini 0. For keys: orderly skew TOPIC"
    else:
        note = "How evenly messages arrive is not known: none arrived during the measurement."
    if table is None and not plots:
        return None
    return Section(
        "Queues, and how even they are", plots=plots, tables=[table] if table else (), note=note
    )


def _queue_plot(name: str, topic: TopicStatus) -> Plot:
    """Messages behind in each queue, in the order of queues; of too many those with most."""
    kept = nlargest(
        _COLUMNS, topic.rows(), key=lambda row: -1 if row.backlog is None else row.backlog
    )
    rows = sorted(kept, key=lambda row: row.queue)
    brokers = [row.queue.broker_name for row in rows]
    different = sorted(set(brokers))
    named = ", ".join(different[:3]) + (", …" if different[3:] else "")
    sticks = [Stick(str(row.queue.queue_id), row.backlog, row.verdict) for row in rows]
    borders = [place for place in range(1, len(rows)) if brokers[place] != brokers[place - 1]]
    svg = columns(name, sticks, f"queue, on {named}", borders=borders)
    many = topic.sums.queues > _COLUMNS
    note = f"The {_COLUMNS} largest of {plural(topic.sums.queues, 'queue')}." if many else ""
    return Plot(_label(topic), svg, note, "messages behind by queue; dashed: the mean")


def _uneven(topics: Sequence[TopicStatus], top: int) -> Table | None:
    """Inflow is the topic's, the same for all its groups: each topic once, the least even first."""
    skews = {it.topic: it.skew for it in topics if it.skew is not None and it.sums.queues > 1}
    shown, more = first(skews.items(), top, lambda it: -it[1].max_over_mean)
    heads = (
        Column("Inflow of topic"), Column("Busiest queue"), Column("Its share", ColumnKind.SHARE),
        Column("Times the mean", ColumnKind.RATIO), Column("Gini", ColumnKind.RATIO),
    )  # fmt: skip
    rows = [
        (topic, str(skew.busiest), skew.top_share, skew.max_over_mean, skew.gini)
        for topic, skew in shown
    ]
    return Table(heads, rows, more, "topic") if rows else None


def waits(row: QueueStatus, at: float) -> float | None:
    """Seconds for which a queue's first message has waited; None: not known."""
    if row.head_age is not None or row.head is None:
        return row.head_age
    return max(0.0, at - row.head.stored_at)


def _heads(behind: Sequence[TopicStatus], at: float, top: int) -> Section | None:
    rows = (row for topic in behind for row in topic.rows() if row.backlog)
    known = (row for row in rows if row.head is not None or row.head_age is not None)
    shown, more = first(known, top, lambda row: -(waits(row, at) or 0))
    heads = (
        Column("Queue"), Column("Group"), Column("State"), Column("Age", ColumnKind.SECONDS),
        Column("Offset", ColumnKind.COUNT), Column("Key", ColumnKind.KEY),
        Column("Attempts", ColumnKind.COUNT), Column("Failure"),
    )  # fmt: skip
    table = Table(heads, [_head(row, at) for row in shown], more, "queue")
    return Section("Head of line: what waits longest", tables=[table]) if shown else None


def _head(row: QueueStatus, at: float) -> Sequence[Cell | StateCell]:
    beside = [f"PARKED {plural(row.parked_keys, 'key')}"] if row.parked_keys else []
    state = StateCell(row.state_verdict, str(row.state), beside=beside)
    age = waits(row, at)
    if row.head is None:
        return (str(row.queue), row.group, state, age, row.committed, None, None, None)
    head = row.head
    return (
        str(row.queue), row.group, state, age, head.offset, head.key, head.attempts,
        head.fingerprint,
    )  # fmt: skip


# --- parked, dead, brokers -----------------------------------------------------------------------


def _parked(topics: Sequence[TopicStatus], top: int) -> Section | None:
    rows = (row for topic in topics if topic.sums.parked_keys for row in topic.rows())
    keys = ((row, key) for row in rows for key in row.parked or ())
    shown, more = first(keys, top, lambda it: -it[1].messages)
    heads = (
        Column("Queue"), Column("Group"), Column("Key", ColumnKind.KEY),
        Column("Messages", ColumnKind.COUNT), Column("Next offset", ColumnKind.COUNT),
        Column("Oldest in queue", ColumnKind.SECONDS),
    )  # fmt: skip
    lines = [
        (str(row.queue), row.group, str(key.key), key.messages, key.next, row.parked_age)
        for row, key in shown
    ]
    return (
        Section(
            "Parked keys",
            "They wait until somebody releases them. They do not count as behind.",
            tables=[Table(heads, lines, more, "key")],
        )
        if lines
        else None
    )


def _dead(snapshot: Snapshot, top: int) -> Section | None:
    having = ((it, it.dead) for it in snapshot.groups.values() if it.dead and it.dead.messages)
    shown, more = first(having, top, lambda it: -it[1].messages)
    heads = (
        Column("Group"), Column("Messages", ColumnKind.COUNT),
        Column("New ones/s", ColumnKind.RATE), Column("Oldest stored", ColumnKind.TIME),
    )  # fmt: skip
    rows = [(group.group, dead.messages, group.dead_rate, dead.oldest_at) for group, dead in shown]
    return Section("Dead letters", tables=[Table(heads, rows, more, "group")]) if rows else None


def _silent(brokers: Sequence[BrokerReading]) -> Section | None:
    rows = [(broker.name, broker.error) for broker in brokers]
    text = "Their queues are UNKNOWN here; everything else is current."
    table = Table((Column("Broker"), Column("Why")), rows)
    return Section("Brokers that did not answer", text, tables=[table]) if rows else None


def _brokers(snapshot: Snapshot, top: int) -> Section:
    """Those that did not answer first."""
    shown, more = first(snapshot.brokers.values(), top, lambda broker: broker.error is None)
    heads = (
        Column("Broker"), Column("Answered"), Column("Requests", ColumnKind.COUNT),
        Column("Last answer after", ColumnKind.SECONDS),
        Column("Its clock is ahead by", ColumnKind.SECONDS),
        Column("Keeps messages", ColumnKind.SECONDS),
    )  # fmt: skip
    rows = [
        (
            broker.name,
            "yes" if broker.error is None else "no",
            broker.requests,
            broker.seconds,
            None if broker.clock_offset is None else f"{broker.clock_offset:.3f} s",
            broker.retention,
        )
        for broker in shown
    ]
    return Section("Brokers", tables=[Table(heads, rows, more, "broker")])
