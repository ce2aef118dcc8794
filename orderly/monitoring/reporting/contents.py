"""What stands in a report: chosen from a snapshot, bounded, worst first. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orderly.monitoring.backlog.evaluate import Point
from orderly.monitoring.backlog.judging import judge
from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState, Verdict, severity
from orderly.monitoring.backlog.sums import add_up, total
from orderly.monitoring.backlog.thresholds import Thresholds
from orderly.monitoring.reporting.top import Top, first
from orderly.monitoring.reporting.troubles import Judged
from orderly.monitoring.reporting.words import duration, plural
from orderly.ordering.parking.keys import ParkedKey

_NAMED = 3  # groups in the first line
_ENOUGH = 0.95  # of the inflow: commits come every 5 s


@dataclass(frozen=True, slots=True)
class ParkedIn:
    """A key that waits, and its queue."""

    row: QueueStatus
    key: ParkedKey


@dataclass(frozen=True, slots=True)
class Contents:
    """What a report tells.

    Attributes:
        snapshot: what was measured.
        samples: how many looks were taken.
        history: the backlog of groups over the samples.
        verdict, headline: the whole in one word and in one line.
        silent: brokers that did not answer.
        groups: worst first; `rest` says in a line what the others are.
        bad: of those shown, the ones that are not in order.
        behind: topics with the largest backlogs.
        draining: topics that take longest until their backlog is worked off, as far as known.
        uneven: topics into which messages flow least evenly; each once.
        heads: queues whose first message waits longest.
        parked: keys with the most messages waiting.
        dead: groups with the most dead letters.
        brokers: those that did not answer first.
    """

    snapshot: Snapshot
    samples: int
    history: Mapping[str, Sequence[Point]]
    verdict: Verdict
    headline: str
    silent: tuple[BrokerReading, ...]
    groups: Top[Judged]
    rest: str
    bad: tuple[Judged, ...]
    behind: Top[TopicStatus]
    draining: Top[TopicStatus]
    uneven: Top[TopicStatus]
    heads: Top[QueueStatus]
    parked: Top[ParkedIn]
    dead: Top[GroupStatus]
    brokers: Top[BrokerReading]

    @property
    def totals(self) -> Sums:
        """All groups together."""
        return add_up(group.sums for group in self.snapshot.groups.values())

    @property
    def dead_letters(self) -> int | None:
        """Of all groups; None: not known of any."""
        dead = (group.dead for group in self.snapshot.groups.values())
        return total(None if it is None else it.messages for it in dead)


def contents(
    snapshot: Snapshot, history: Mapping[str, Sequence[Point]], samples: int, top: int
) -> Contents:
    """Choose.

    Args:
        snapshot: what was measured last.
        history: by group, its backlog over the samples, oldest first.
        samples: how many there were.
        top: most lines of each table and plot.
    """
    judged = list(_judged(snapshot))
    silent = tuple(each for each in snapshot.brokers.values() if each.error is not None)
    groups = first(judged, top, _worst_first)
    topics = [topic for group in snapshot.groups.values() for topic in group.topics.values()]
    behind = [topic for topic in topics if topic.sums.backlog]
    return Contents(
        snapshot=snapshot,
        samples=samples,
        history={name: points for name, points in history.items() if len(points) > 1},
        verdict=_verdict(judged, silent=bool(silent)),
        headline=_headline(judged, silent),
        silent=silent,
        groups=groups,
        rest=_rest(sorted(judged, key=_worst_first)[top:]),
        bad=tuple(each for each in groups.shown if _in_trouble(each)),
        behind=first(behind, top, lambda topic: -(topic.sums.backlog or 0)),
        draining=first(
            (topic for topic in behind if _drains(topic.sums)),
            top,
            lambda topic: (-(topic.sums.drain_eta or 0), -(topic.sums.backlog or 0)),
        ),
        uneven=_uneven(topics, top),
        heads=first(_waiting(behind), top, lambda row: -(waits(row, snapshot.at) or 0)),
        parked=first(_parked(topics), top, lambda it: -it.key.messages),
        dead=first(_with_dead(snapshot), top, lambda group: -group.dead.messages),  # type: ignore[union-attr]
        brokers=first(snapshot.brokers.values(), top, lambda broker: broker.error is None),
    )


def waits(row: QueueStatus, at: float) -> float | None:
    """Seconds for which a queue's first message has waited; None: not known."""
    if row.head_age is not None or row.head is None:
        return row.head_age
    return max(0.0, at - row.head.stored_at)


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


def _drains(sums: Sums) -> bool:
    return sums.drain_eta is not None and not _keeps_up(sums)


# --- groups --------------------------------------------------------------------------------------


def _judged(snapshot: Snapshot) -> Iterator[Judged]:
    thresholds = Thresholds.parse({}, {})
    for group in snapshot.groups.values():
        yield Judged(group, judge([group], thresholds).verdict)


_PLACE = {state: place for place, state in enumerate(QueueState)}


def _worst_first(group: Judged) -> tuple[int, int, int]:
    sums = group.status.sums
    return -severity(group.verdict), -(sums.backlog or 0), _PLACE[sums.state]


def _in_trouble(group: Judged) -> bool:
    return group.verdict is not Verdict.OK or bool(group.status.findings)


def _verdict(groups: Sequence[Judged], *, silent: bool) -> Verdict:
    found = [group.verdict for group in groups] or [Verdict.UNKNOWN]
    return max((*found, Verdict.UNKNOWN) if silent else found, key=severity)


def _headline(groups: Sequence[Judged], silent: Sequence[BrokerReading]) -> str:
    bad = sorted((it for it in groups if it.verdict is not Verdict.OK), key=_worst_first)
    named = ", ".join(f"{it.status.group} ({_named(it)})" for it in bad[:_NAMED])
    more = f" and {len(bad) - _NAMED:,} more" if len(bad) > _NAMED else ""
    if not groups:
        told = "No group was found"
    elif bad:
        told = f"{len(bad):,} of {plural(len(groups), 'group')} not in order: {named}{more}"
    else:
        told = f"All {plural(len(groups), 'group')} in order" if groups[1:] else "In order"
    mute = f"; {plural(len(silent), 'broker')} did not answer" if silent else ""
    return f"{told}{mute}."


def _named(group: Judged) -> str:
    sums = group.status.sums
    if sums.state is not QueueState.OK:
        return str(sums.state)
    return "parked keys" if sums.parked_keys else "dead letters"


def _rest(groups: Sequence[Judged]) -> str:
    """What the groups are that have no line of their own."""
    if not groups:
        return ""
    counts = Counter(group.verdict for group in groups)
    verdicts = sorted(counts, key=severity, reverse=True)
    told = ", ".join(f"{counts[verdict]:,} {verdict.name}" for verdict in verdicts)
    behind = add_up(group.status.sums for group in groups).backlog or 0
    return f"{plural(len(groups), 'group')} left out: {told}; {plural(behind, 'message')} behind"


# --- topics and queues ---------------------------------------------------------------------------


def _uneven(topics: Sequence[TopicStatus], top: int) -> Top[TopicStatus]:
    """Inflow is the topic's, the same for all its groups."""
    once = {it.topic: it for it in topics if it.skew is not None and it.sums.queues > 1}
    return first(once.values(), top, lambda it: -(it.skew.max_over_mean if it.skew else 0))


def _waiting(topics: Sequence[TopicStatus]) -> Iterator[QueueStatus]:
    for topic in topics:
        for row in topic.rows():
            if row.backlog and (row.head is not None or row.head_age is not None):
                yield row


def _parked(topics: Sequence[TopicStatus]) -> Iterator[ParkedIn]:
    for topic in topics:
        if topic.sums.parked_keys:
            for row in topic.rows():
                yield from (ParkedIn(row, key) for key in row.parked or ())


def _with_dead(snapshot: Snapshot) -> Iterator[GroupStatus]:
    groups = snapshot.groups.values()
    return (group for group in groups if group.dead is not None and group.dead.messages)
