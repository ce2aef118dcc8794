"""What `orderly skew` found, as text for a reader. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill

from orderly.cli.formats import Answer, Column, Format, Kind, written
from orderly.cli.formats.answer import Cell
from orderly.foreign_text import escaped, hidden
from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus
from orderly.monitoring.collecting.topic_sample import TopicSkew
from orderly.monitoring.skew.advice import advice, percent
from orderly.monitoring.skew.inflow import Basis, Inflow
from orderly.monitoring.skew.keys import HotKey
from orderly.monitoring.skew.what_if import Outcome
from orderly.monitoring.texts import duration

_TOP = 10  # keys in the table
_WIDTH = 100
_NUMBER = Kind.NUMBER  # right-aligned


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        found: of the topic.
        group: the group that was asked for, if one was.
        redact: whether keys are to be hashes.
    """

    found: TopicSkew
    group: GroupStatus | None
    redact: bool

    def key(self, key: str) -> str:
        """What is shown of a key."""
        return hidden(key) if self.redact else key

    def rows(self) -> dict[MessageQueue, QueueStatus]:
        """The group's queues of the topic."""
        if self.group is None or self.found.topic not in self.group.topics:
            return {}
        return {row.queue: row for row in self.group.topics[self.found.topic].rows()}

    def advice(self) -> tuple[str, ...]:
        """What is to be said."""
        order = self.group.order if self.group is not None else ""
        keys = self.found.keys
        return advice(self.found.inflow, keys, order, lambda key: escaped(self.key(key)))


def text(report: Report, form: Format, *, color: bool) -> str:
    """All of it, for a reader."""
    parts = [_heading(report.found)]
    tables = (
        ("", _queues(report)),
        (_about_keys(report), _keys(report)),
        ("What if, with the keys of the sample (moved: share of messages whose key moves):",
         _outcomes(report)),
    )  # fmt: skip
    for heading, table in tables:
        if table.rows:
            parts.append("\n".join(filter(None, [heading, written(table, form, color=color)])))
    parts.append("\n".join(fill(f"- {line}", _WIDTH, subsequent_indent="  ", break_long_words=False,
                                break_on_hyphens=False) for line in report.advice()))  # fmt: skip
    return "\n\n".join(parts)


_BASES = {
    Basis.MEASURED: "{count} messages came in {time}",
    Basis.SINCE: "{count} messages were stored in the last {time}",
    Basis.STORED: "too little comes to judge by, so all {count} messages stored are counted",
}


def _heading(found: TopicSkew) -> str:
    inflow, skew = found.inflow, found.inflow.skew
    if inflow.total == 0:
        return f"{found.topic}: {len(inflow.messages)} queues; nothing is stored in that time."
    queues = f"{found.topic}: {len(inflow.messages)} queues"
    if inflow.total is None:
        return f"{queues}; not all of them could be read, so how uneven they are is not known."
    told = _BASES[inflow.basis].format(
        count=f"{inflow.total:,}", time=duration(inflow.seconds or 0.0)
    )
    line = f"{queues}; {told}."
    if skew is None:
        return line
    return (
        f"{line}\nThe busiest queue gets {skew.max_over_mean:.1f} times the mean,"
        f" {percent(skew.top_share)} of all; Gini {skew.gini:.2f}."
    )


def _queues(report: Report) -> Answer:
    """A line a queue, the busiest first."""
    inflow, status = report.found.inflow, report.rows()
    columns = [Column("queue"), Column("messages", Kind.COUNT), Column("share", _NUMBER),
               Column("of mean", _NUMBER)]  # fmt: skip
    if status:
        columns += [Column("backlog", Kind.COUNT), Column("owner")]
    rows: list[list[Cell]] = []
    for queue in sorted(inflow.messages, key=lambda queue: -(inflow.messages[queue] or 0)):
        count, row = inflow.messages[queue], status.get(queue)
        share = share_of(count, inflow)
        mean = None if share is None else f"{share * len(inflow.messages):.2f}"
        cells: list[Cell] = [str(queue), count, share if share is None else percent(share), mean]
        if status:
            cells += [row.backlog, row.owner] if row is not None else [None, None]
        rows.append(cells)
    return Answer(columns, rows)


def share_of(count: int | None, inflow: Inflow) -> float | None:
    """A queue's share of the inflow; None: not known."""
    return count / inflow.total if count is not None and inflow.total else None


def _about_keys(report: Report) -> str:
    keys = report.found.keys
    different = "more keys than were counted" if keys.keys is None else f"{keys.keys} keys"
    line = f"Keys of {keys.messages} messages: {different}"
    return line + (f"; {keys.keyless} messages have none" if keys.keyless else "")


def _elsewhere(report: Report) -> list[Outcome]:
    """What the producers' selector would do with each other number of queues."""
    now = report.found.keys.present
    if now is None:
        return []
    return [each for each in report.found.keys.outcomes
            if each.selector == now.selector and each.queues != now.queues]  # fmt: skip


def _keys(report: Report) -> Answer:
    """A line a key, with where it would go."""
    keys, others = report.found.keys, _elsewhere(report)
    columns = [Column("key"), Column("messages", _NUMBER), Column("share", _NUMBER),
               Column("queue"), *(Column(f"of {each.queues}") for each in others)]  # fmt: skip
    rows = [
        [
            escaped(report.key(key.key)),
            str(key.most) if key.least == key.most else f"{key.least}-{key.most}",
            percent(key.least / keys.keyed),
            "several" if key.split else short(key.queue),
            *(_goes(each, key) for each in others),
        ]
        for key in keys.top[:_TOP]
    ]
    return Answer(columns, rows)


def short(queue: MessageQueue) -> str:
    """A queue without its topic."""
    return f"{queue.broker_name}/{queue.queue_id}"


def _goes(outcome: Outcome, key: HotKey) -> str:
    place = outcome.place(key.key)
    return "stays" if place == key.queue else short(place)


def _outcomes(report: Report) -> Answer:
    keys = report.found.keys
    columns = [Column("queues"), Column("selector"), Column("max/mean", _NUMBER),
               Column("top share", _NUMBER), Column("gini", _NUMBER),
               Column("moved", _NUMBER)]  # fmt: skip
    rows: list[Sequence[Cell]] = [
        (
            f"{each.queues}{' (now)' if each.queues == keys.queues else ''}",
            each.selector,
            f"{each.skew.max_over_mean:.2f}",
            percent(each.skew.top_share),
            f"{each.skew.gini:.2f}",
            percent(each.moved),
        )
        for each in keys.outcomes
        if each.skew is not None
    ]
    return Answer(columns, rows)
