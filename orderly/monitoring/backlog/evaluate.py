"""From scan to snapshot: every group's queues, judged in the light of the scans before."""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeVar

from orderly.model import MessageQueue
from orderly.monitoring.backlog.history import (
    NOT_KNOWN,
    OffsetHistory,
    RateEstimator,
    Sample,
    Track,
    forget_absent,
)
from orderly.monitoring.backlog.members import GroupMemory, GroupObservation
from orderly.monitoring.backlog.reading import (
    NOT_READ,
    BrokerReading,
    GroupReading,
    Head,
    Scan,
    TopicReading,
)
from orderly.monitoring.backlog.rules import (
    RULES,
    EvaluationSettings,
    GroupTopic,
    GroupTopicTotals,
    Now,
    Topic,
    backlog_of,
    codes_of,
    settled,
    span,
    state_and_cause,
    stored_times,
)
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueSkew,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import QueueState


class TopicMemory:
    """What is remembered of one topic. Not thread-safe."""

    def __init__(self, at: float, reading: TopicReading) -> None:
        self.absent = 0
        self.reading = reading
        self._curves = {queue: OffsetHistory() for queue in reading.queues}
        self._marks = RateEstimator(at, reading.maximum)
        self._closed: Mapping[str, str] = {}

    def view(
        self,
        at: float,
        reading: TopicReading,
        brokers: Mapping[str, BrokerReading],
        window: float,
    ) -> Topic:
        """The topic in a scan."""
        known = self.reading
        if reading.queues != known.queues:
            self._curves = {
                queue: self._curves.get(queue, OffsetHistory()) for queue in reading.queues
            }
            self._marks = RateEstimator(at, reading.maximum)
        closed = _closed(reading, brokers)
        same = (
            reading.maximum == known.maximum
            and reading.minimum == known.minimum
            and reading.queues == known.queues
            and reading.unread == known.unread
            and closed == self._closed
        )
        self.reading, self._closed = reading, closed
        curves = list(self._curves.values())
        for curve, end in zip(curves, reading.maximum, strict=True):
            if end >= 0:
                curve.note(at, end)
        rates, elapsed = self._marks.rates(at, reading.maximum, window)
        return Topic(
            reading=reading,
            curves=curves,
            in_rates=rates,
            elapsed=elapsed,
            retention=[_retention(brokers.get(queue.broker_name)) for queue in reading.queues],
            skew=queue_skew(reading.queues, rates),
            same=same,
            whole=min((*reading.minimum, *reading.maximum), default=0) >= 0,
            closed=closed,
        )


def _retention(broker: BrokerReading | None) -> float | None:
    return None if broker is None else broker.retention


def _closed(reading: TopicReading, brokers: Mapping[str, BrokerReading]) -> dict[str, str]:
    """By broker, why nobody may read the topic there."""
    found = {
        name: f"topic {reading.topic} may not be read on broker {name} (its permission)"
        for name in reading.closed
    }
    for name in {queue.broker_name for queue in reading.queues}:
        if name in brokers and not brokers[name].serves_reads:
            found[name] = f"broker {name} lets nobody read (brokerPermission)"
    return found


class ClusterTopics:
    """All topics that a group has offsets of. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[str, TopicMemory] = {}

    def views(self, scan: Scan, wanted: Collection[str], window: float) -> dict[str, Topic]:
        """Each wanted topic in a scan.

        One that the scan does not show although a group has offsets of it is as it was, and
        nothing of it could be read.
        """
        found = {}
        for name in wanted:
            memory = self._known.get(name)
            reading = scan.topics.get(name)
            if reading is None:
                if memory is None:
                    continue
                reading = unreadable(memory.reading)
            if memory is None:
                memory = self._known[name] = TopicMemory(scan.at, reading)
            memory.absent = 0
            found[name] = memory.view(scan.at, reading, scan.brokers, window)
        forget_absent(self._known, wanted)
        return found

    def queues(self, name: str) -> tuple[MessageQueue, ...]:
        """A topic's queues as last seen."""
        memory = self._known.get(name)
        return () if memory is None else memory.reading.queues


def unreadable(reading: TopicReading) -> TopicReading:
    """A topic of which nothing could be read."""
    nothing = (NOT_READ,) * len(reading.queues)
    return replace(reading, minimum=nothing, maximum=nothing)


# --- how unevenly messages flow into a topic's queues ---------------------------------------------


def queue_skew(queues: Sequence[MessageQueue], inflow: Sequence[float | None]) -> QueueSkew | None:
    """Figures of skew; None if a rate is not known, or nothing flows.

    Args:
        queues: of one topic.
        inflow: messages a second into each.
    """
    rates = [rate for rate in inflow if rate is not None]
    total = sum(rates)
    if len(rates) < len(queues) or total <= 0:
        return None
    count = len(rates)
    mean = total / count
    top = max(rates)
    return QueueSkew(
        max_over_mean=top / mean,
        top_share=top / total,
        variation=math.sqrt(sum((rate - mean) ** 2 for rate in rates) / count) / mean,
        gini=_gini(sorted(rates), total),
        busiest=queues[rates.index(top)],
    )


def _gini(ascending: list[float], total: float) -> float:
    count = len(ascending)
    weighted = sum((2 * place - count - 1) * rate for place, rate in enumerate(ascending, 1))
    return max(0.0, weighted / (count * total))


# --- figures of several queues together -----------------------------------------------------------
# A sum of messages or rates is a lower bound while some of its parts are not known. An age or a
# time of which some parts are 0 (or never) and the others not known is not known.


N = TypeVar("N", int, float)


def totals_of(pair: GroupTopic) -> GroupTopicTotals:
    """What does not change with time alone."""
    backlog = [messages for messages in pair.backlog if messages is not None]
    heads = zip(pair.backlog, pair.track.head_at, pair.topic.retention, strict=True)
    known = [(at, kept) for messages, at, kept in heads if messages and at != NOT_KNOWN]
    return GroupTopicTotals(
        backlog=sum(backlog) if backlog else None,
        unknown=len(pair.backlog) - len(backlog),
        states={RULES[code].state: pair.codes.count(code) for code in sorted(set(pair.codes))},
        lost=_lost(pair),
        head_at=min((at for at, _ in known), default=None),
        eaten_at=min((at + kept for at, kept in known if kept is not None), default=None),
    )


def sums_of(pair: GroupTopic) -> Sums:
    """The sums of one topic in one group."""
    totals = pair.totals or totals_of(pair)
    idle = not totals.backlog
    certain = totals.backlog is not None and not totals.unknown
    at = pair.now.at
    keys, messages, age = _parked(pair)
    return Sums(
        queues=len(pair.backlog),
        unknown=totals.unknown,
        states=totals.states,
        backlog=totals.backlog,
        lost=totals.lost,
        head_age=_within(0.0, certain) if idle else _since(at, totals.head_at),
        in_rate=total(pair.topic.in_rates),
        out_rate=total(pair.out_rates),
        drain_eta=_within(0.0, certain) if idle else _slowest(pair),
        retention_eta=_within(math.inf, certain) if idle else _until(at, totals.eaten_at),
        parked_keys=keys,
        parked_messages=messages,
        parked_age=age,
    )


def _within(value: float, certain: bool) -> float | None:
    """What holds of queues without a backlog, if there are no others."""
    return value if certain else None


def _since(at: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, at - then)


def _until(at: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, then - at)


def _slowest(pair: GroupTopic) -> float | None:
    """The largest GroupTopic.drain_eta."""
    if pair.rates_known and not any(pair.out_rates):
        return math.inf  # the usual thing of groups that are offline
    return largest(pair.drain_eta(place) for place, messages in enumerate(pair.backlog) if messages)


def lost_messages(pair: GroupTopic, place: int) -> int:
    """Messages of a queue that were deleted before they were consumed."""
    lost = RULES[pair.codes[place]].state is QueueState.LOST
    return pair.topic.reading.minimum[place] - pair.committed[place] if lost else 0


def _lost(pair: GroupTopic) -> int:
    if _LOST not in pair.codes:
        return 0
    return sum(lost_messages(pair, place) for place in range(len(pair.codes)))


_LOST = next(code for code, rule in enumerate(RULES) if rule.state is QueueState.LOST)


def _parked(pair: GroupTopic) -> tuple[int | None, int | None, float | None]:
    """Keys, messages, and seconds since the oldest was stored."""
    found = map(pair.record, range(len(pair.codes))) if pair.signs.records else ()
    records = [record for record in found if record is not None]
    if not records:
        return None, None, None
    keys = [key for record in records for key in record.parked]
    since = smallest(record.parked_since for record in records)
    return len(keys), sum(key.messages for key in keys), _since(pair.now.at, since)


# --- sums of sums --------------------------------------------------------------------------------


def add_up(parts: Iterable[Sums]) -> Sums:
    """The sums of several sums: of a group's topics, or of groups."""
    parts = list(parts)
    states: dict[QueueState, int] = {}
    for part in parts:
        for state, count in part.states.items():
            states[state] = states.get(state, 0) + count
    measured = sum(part.queues - part.unknown for part in parts)
    unknown = sum(part.unknown for part in parts)
    return Sums(
        queues=measured + unknown,
        unknown=unknown,
        states={state: states[state] for state in QueueState if state in states},
        backlog=total(part.backlog for part in parts),
        lost=sum(part.lost for part in parts),
        head_age=_together(parts, "head_age", 0.0, unknown),
        in_rate=total(part.in_rate for part in parts),
        out_rate=total(part.out_rate for part in parts),
        drain_eta=_together(parts, "drain_eta", 0.0, unknown),
        retention_eta=_together(parts, "retention_eta", math.inf, unknown),
        parked_keys=total(part.parked_keys for part in parts),
        parked_messages=total(part.parked_messages for part in parts),
        parked_age=largest(part.parked_age for part in parts),
    )


def _together(parts: Sequence[Sums], name: str, idle: float, unknown: int) -> float | None:
    values = list(map(attrgetter(name), parts))
    worst = largest(values) if idle == 0.0 else smallest(values)
    vague = unknown or None in values
    return None if worst == idle and vague else worst


def total(values: Iterable[N | None]) -> N | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def largest(values: Iterable[float | None]) -> float | None:
    """The largest of what is known."""
    return max((value for value in values if value is not None), default=None)


def smallest(values: Iterable[float | None]) -> float | None:
    """The smallest of what is known."""
    return min((value for value in values if value is not None), default=None)


# --- a row for each queue, made when somebody looks -----------------------------------------------


def rows_of(pair: GroupTopic) -> Iterator[QueueStatus]:
    """The rows of a pair, sorted by queue."""
    return (row_of(pair, place) for place in range(len(pair.committed)))


def row_of(pair: GroupTopic, place: int) -> QueueStatus:
    """One queue."""
    reading = pair.topic.reading
    queue = reading.queues[place]
    state, cause = state_and_cause(pair, place)
    record = pair.record(place)
    since = None if record is None else record.parked_since
    minimum, maximum = reading.minimum[place], reading.maximum[place]
    return QueueStatus(
        group=pair.group,
        queue=queue,
        state=state,
        cause=cause,
        minimum=_row_offset(minimum),
        committed=_row_offset(pair.committed[place]),
        maximum=_row_offset(maximum),
        span=span(minimum, pair.committed[place], maximum),
        backlog=pair.backlog[place],
        lost=lost_messages(pair, place),
        head_age=pair.head_age(place),
        in_rate=pair.topic.in_rates[place],
        out_rate=pair.out_rates[place],
        drain_eta=pair.drain_eta(place),
        retention_eta=pair.retention_eta(place),
        owner=pair.signs.owners.get(queue),
        parked=None if record is None else record.parked,
        parked_age=None if since is None else max(0.0, pair.now.at - since),
        head=_row_head(pair, place),
    )


def _row_offset(value: int) -> int | None:
    return value if value >= 0 else None


def _row_head(pair: GroupTopic, place: int) -> Head | None:
    """The first message, unless the group has committed beyond it since it was looked at."""
    head = pair.signs.heads.get(pair.topic.reading.queues[place])
    return head if head is not None and head.offset >= pair.committed[place] else None


# --- from scan to snapshot ------------------------------------------------------------------------


POINTS = 60
_UNMEASURED = -1.0  # in a history
Key = tuple[str, str]  # group and topic


class Point(NamedTuple):
    """A backlog at a moment, for sparklines; None: not known."""

    at: float
    backlog: int | None


class PairMemory:
    """What is remembered of one (group, topic). Not thread-safe."""

    __slots__ = ("absent", "marks", "pair", "points", "queues", "track")

    def __init__(
        self, at: float, queues: tuple[MessageQueue, ...], committed: tuple[int, ...]
    ) -> None:
        self.absent = 0
        self.queues = queues
        self.track = Track(len(queues))
        self.marks = RateEstimator(at, committed)
        self.points = array("d")
        self.pair: GroupTopic | None = None

    def fit(self, at: float, queues: tuple[MessageQueue, ...], committed: tuple[int, ...]) -> None:
        """The topic got more queues, or fewer."""
        places = {queue: place for place, queue in enumerate(self.queues)}
        self.track = self.track.picked([places.get(queue) for queue in queues])
        self.queues, self.marks, self.pair = queues, RateEstimator(at, committed), None

    def note(self, at: float, backlog: int | None) -> None:
        """One more point of the history."""
        self.points += array("d", (at, _UNMEASURED if backlog is None else backlog))
        if len(self.points) > 2 * POINTS:
            del self.points[:2]


class Backlog:
    """Judges scan after scan; remembers what the rules need of those before.

    Not thread-safe: one thread takes scans and asks for the history. A Snapshot never changes, and
    any thread may read it.

    Args:
        settings: how far back it looks.
    """

    def __init__(self, settings: EvaluationSettings | None = None) -> None:
        self._settings = settings or EvaluationSettings()
        self._times = array("d")
        self._topics = ClusterTopics()
        self._pairs: dict[Key, PairMemory] = {}
        self._groups: dict[str, GroupMemory] = {}

    def take(self, scan: Scan) -> Snapshot:
        """Judge one more scan; it must be later than those before."""
        now = self._now(scan.at)
        committed = {**scan.committed, **self._out_of_reach(scan)}
        topics = self._topics.views(scan, {topic for _, topic in committed}, self._settings.window)
        signs = self._signs(scan, committed, topics)
        found: dict[str, dict[str, TopicStatus]] = {name: {} for name in signs}
        for (group, topic), offsets in committed.items():
            if topic in topics:
                status = self._pair(group, topics[topic], signs[group], now, offsets)
                found[group][topic] = status
        forget_absent(self._pairs, committed)
        return Snapshot(
            at=scan.at,
            scan_seconds=scan.seconds,
            window=min(self._settings.window, scan.at - self._times[0]),
            cluster=scan.cluster,
            brokers=scan.brokers,
            groups={name: _group(name, found[name], signs[name]) for name in sorted(found)},
            requests=scan.requests,
        )

    def history(self, group: str, topic: str | None = None) -> tuple[Point, ...]:
        """The backlog of a topic in a group, or of the whole group, oldest first.

        The last 60 scans; of a group, those in which all that was measured could be added up.
        """
        keys = [key for key in self._pairs if key[0] == group and topic in (None, key[1])]
        sums: dict[float, int | None] = {}
        for key in keys:
            points = self._pairs[key].points
            for at, backlog in zip(points[::2], points[1::2], strict=True):
                known = sums.get(at)
                sums[at] = known if backlog == _UNMEASURED else (known or 0) + int(backlog)
        return tuple(Point(at, sums[at]) for at in sorted(sums))

    # --- time ----------------------------------------------------------------------------------

    def _now(self, at: float) -> Now:
        settings = self._settings
        before = self._times[-1] if self._times else at
        self._times.append(at)
        del self._times[: -max(POINTS, settings.min_points)]
        enough = len(self._times) >= settings.min_points
        long_ago = min(at - settings.min_window, self._times[-settings.min_points]) if enough else 0
        lately = min(before, at - settings.min_window / 2)
        return Now(at, before, long_ago, lately, settings)

    # --- what is not in the scan ---------------------------------------------------------------

    def _out_of_reach(self, scan: Scan) -> dict[Key, tuple[int, ...]]:
        """Pairs that only a broker knew that does not answer: they are unknown, not gone."""
        silent = {name for name, broker in scan.brokers.items() if broker.error is not None}
        if not silent:
            return {}
        return {
            key: (NOT_READ,) * len(self._queues_now(scan, key))
            for key in self._pairs.keys() - scan.committed.keys()
            if silent & {queue.broker_name for queue in self._pairs[key].queues}
        }

    def _queues_now(self, scan: Scan, key: Key) -> tuple[MessageQueue, ...]:
        reading = scan.topics.get(key[1])
        return self._topics.queues(key[1]) if reading is None else reading.queues

    # --- groups --------------------------------------------------------------------------------

    def _signs(
        self, scan: Scan, committed: Iterable[Key], topics: Mapping[str, Topic]
    ) -> dict[str, GroupObservation]:
        by_group: dict[str, list[str]] = {name: [] for name in scan.groups}
        for group, topic in committed:
            by_group.setdefault(group, []).append(topic)
        found = {}
        for name, consumed in by_group.items():
            reading = scan.groups.get(name) or GroupReading(name)
            memory = self._groups.setdefault(name, GroupMemory())
            memory.absent = 0
            found[name] = memory.signs(
                scan.at,
                reading,
                partial(_to_read, [topics[t] for t in consumed if t in topics]),
                self._settings.blocked_after,
                self._settings.window,
            )
            found[name].barred = frozenset(
                broker for broker, known in scan.brokers.items() if name in known.barred
            )
        forget_absent(self._groups, by_group)
        return found

    # --- one topic in one group ----------------------------------------------------------------

    def _pair(
        self,
        group: str,
        topic: Topic,
        signs: GroupObservation,
        now: Now,
        committed: tuple[int, ...],
    ) -> TopicStatus:
        name, queues = topic.reading.topic, topic.reading.queues
        memory = self._pairs.get((group, name))
        if memory is None:
            memory = self._pairs[group, name] = PairMemory(now.at, queues, committed)
        memory.absent = 0
        if memory.queues != queues:
            memory.fit(now.at, queues, committed)
        rates, elapsed = memory.marks.rates(now.at, committed, now.settings.window)
        pair = GroupTopic(
            group, topic, signs, now, array("q", committed), rates, elapsed, memory.track
        )
        _judge(pair, memory)
        memory.pair, memory.track = pair, pair.track
        sums = sums_of(pair)
        memory.note(now.at, sums.backlog)
        return TopicStatus(group, name, sums, topic.skew, partial(rows_of, pair))


def _judge(pair: GroupTopic, memory: PairMemory) -> None:
    """Fill in what follows from the offsets, or take it over if nothing is different."""
    old = memory.pair
    if old is not None and pair.committed == old.committed and _same_around(pair, old):
        pair.backlog, pair.track, pair.codes = old.backlog, old.track, old.codes
        if settled(pair):
            pair.totals = old.totals
            return
    else:
        _look(pair, memory)
    pair.codes = codes_of(pair)
    pair.totals = totals_of(pair)


def _same_around(pair: GroupTopic, old: GroupTopic) -> bool:
    """Whether topic and group are as before, and nobody knows more than offsets."""
    return pair.topic.same and pair.signs.offsets_only and pair.signs.alike(old.signs)


def _look(pair: GroupTopic, memory: PairMemory) -> None:
    pair.backlog = backlog_of(pair.signs, pair.topic, pair.committed)
    heads = list(map(max, pair.committed, pair.topic.reading.minimum))
    now = pair.now
    ends = pair.topic.reading.maximum
    look = Sample(now.at, now.before, pair.committed, heads, pair.backlog, ends, pair.topic.curves)
    pair.track = memory.track.follow(look)
    pair.track = pair.track.without_rewinds(_set_back_by_a_new_topic(pair))
    if pair.signs.reading.delays:
        pair.track = pair.track.with_heads(_reported_times(pair))


def _set_back_by_a_new_topic(pair: GroupTopic) -> list[int]:
    """Queues whose offset went back because their topic was recreated, and not since."""
    recreated = pair.signs.reading.recreated
    if not recreated:
        return []
    return [
        place
        for place, queue in enumerate(pair.topic.reading.queues)
        if (found := recreated.get(queue)) is not None and found.gone_on_at in (None, pair.now.at)
    ]


def _reported_times(pair: GroupTopic) -> dict[int, float]:
    reading = pair.signs.reading
    delays = {
        place: reading.delays[queue]
        for place, queue in enumerate(pair.topic.reading.queues)
        if queue in reading.delays
    }
    return stored_times(pair, delays, reading.delays_at)


def _to_read(topics: Iterable[Topic]) -> list[MessageQueue]:
    return [q for topic in topics for q in topic.reading.queues if q not in topic.reading.unread]


def _group(name: str, topics: dict[str, TopicStatus], signs: GroupObservation) -> GroupStatus:
    stale = [topic for topic in sorted(topics) if not signs.wants(topic)]
    return GroupStatus(
        group=name,
        topics=dict(sorted(topics.items())),
        sums=add_up(topic.sums for topic in topics.values()),
        members=signs.members,
        idle=signs.idle,
        model=signs.model,
        order=signs.order,
        dead=signs.reading.dead,
        dead_rate=signs.dead_rate,
        owner_changes=signs.owner_changes,
        findings=(
            *signs.findings,
            *(f"it has offsets of {topic}, and no longer subscribes to it" for topic in stale),
        ),
    )
