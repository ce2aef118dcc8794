"""From scan to snapshot: every group's queues, judged in the light of the scans before."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from orderly.model import MessageQueue
from orderly.monitoring.backlog.absence import forget_absent
from orderly.monitoring.backlog.pace import Marks
from orderly.monitoring.backlog.pair import Now, Pair, Topic, backlog_of, stored_times
from orderly.monitoring.backlog.reading import NOT_READ, GroupReading, Scan
from orderly.monitoring.backlog.rows import rows_of
from orderly.monitoring.backlog.rules.table import codes_of, settled
from orderly.monitoring.backlog.settings import Settings
from orderly.monitoring.backlog.signs import GroupMemory, Signs
from orderly.monitoring.backlog.snapshot import GroupStatus, Snapshot, TopicStatus
from orderly.monitoring.backlog.sums import add_up, sums_of, totals_of
from orderly.monitoring.backlog.topics import Topics
from orderly.monitoring.backlog.track import Look, Track

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
        self.marks = Marks(at, committed)
        self.points = array("d")
        self.pair: Pair | None = None

    def fit(self, at: float, queues: tuple[MessageQueue, ...], committed: tuple[int, ...]) -> None:
        """The topic got more queues, or fewer."""
        places = {queue: place for place, queue in enumerate(self.queues)}
        self.track = self.track.picked([places.get(queue) for queue in queues])
        self.queues, self.marks, self.pair = queues, Marks(at, committed), None

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

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings or Settings()
        self._times = array("d")
        self._topics = Topics()
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
    ) -> dict[str, Signs]:
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
        forget_absent(self._groups, by_group)
        return found

    # --- one topic in one group ----------------------------------------------------------------

    def _pair(
        self, group: str, topic: Topic, signs: Signs, now: Now, committed: tuple[int, ...]
    ) -> TopicStatus:
        name, queues = topic.reading.topic, topic.reading.queues
        memory = self._pairs.get((group, name))
        if memory is None:
            memory = self._pairs[group, name] = PairMemory(now.at, queues, committed)
        memory.absent = 0
        if memory.queues != queues:
            memory.fit(now.at, queues, committed)
        rates, elapsed = memory.marks.rates(now.at, committed, now.settings.window)
        pair = Pair(group, topic, signs, now, array("q", committed), rates, elapsed, memory.track)
        _judge(pair, memory)
        memory.pair, memory.track = pair, pair.track
        sums = sums_of(pair)
        memory.note(now.at, sums.backlog)
        return TopicStatus(group, name, sums, topic.skew, partial(rows_of, pair))


def _judge(pair: Pair, memory: PairMemory) -> None:
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


def _same_around(pair: Pair, old: Pair) -> bool:
    """Whether topic and group are as before, and nobody knows more than offsets."""
    return pair.topic.same and pair.signs.offsets_only and pair.signs.alike(old.signs)


def _look(pair: Pair, memory: PairMemory) -> None:
    pair.backlog = backlog_of(pair.signs, pair.topic, pair.committed)
    heads = list(map(max, pair.committed, pair.topic.reading.minimum))
    now = pair.now
    ends = pair.topic.reading.maximum
    look = Look(now.at, now.before, pair.committed, heads, pair.backlog, ends, pair.topic.curves)
    pair.track = memory.track.follow(look)
    pair.track = pair.track.without_rewinds(_set_back_by_a_new_topic(pair))
    if pair.signs.reading.delays:
        pair.track = pair.track.with_heads(_told_times(pair))


def _set_back_by_a_new_topic(pair: Pair) -> list[int]:
    """Queues whose offset went back because their topic was made anew, and not since."""
    recreated = pair.signs.reading.recreated
    if not recreated:
        return []
    return [
        place
        for place, queue in enumerate(pair.topic.reading.queues)
        if (found := recreated.get(queue)) is not None and found.gone_on_at in (None, pair.now.at)
    ]


def _told_times(pair: Pair) -> dict[int, float]:
    reading = pair.signs.reading
    delays = {
        place: reading.delays[queue]
        for place, queue in enumerate(pair.topic.reading.queues)
        if queue in reading.delays
    }
    return stored_times(pair, delays, reading.delays_at)


def _to_read(topics: Iterable[Topic]) -> list[MessageQueue]:
    return [q for topic in topics for q in topic.reading.queues if q not in topic.reading.unread]


def _group(name: str, topics: dict[str, TopicStatus], signs: Signs) -> GroupStatus:
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
