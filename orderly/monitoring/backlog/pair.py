"""One topic in one group, as a scan shows it: what the rules look at, and rows are made of."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orderly.monitoring.backlog.curve import Curve
from orderly.monitoring.backlog.pace import LEAST_FOR_ETA, Rate, drain_eta, retention_eta
from orderly.monitoring.backlog.reading import NEVER, QueueRecord, Recreation, TopicReading
from orderly.monitoring.backlog.settings import Settings
from orderly.monitoring.backlog.signs import Signs
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.track import NOT_KNOWN, Track

Backlog = Sequence[int | None]


@dataclass(slots=True)
class Topic:
    """A topic in one scan, the same for all groups. Not changed once made.

    Attributes:
        reading: its queues and offsets.
        curves: how each queue grew.
        in_rates: messages a second stored into each.
        elapsed: seconds over which that was taken.
        retention: seconds for which each queue's broker keeps messages.
        skew: of the inflow.
        same: whether queues and offsets are those of the scan before.
        whole: whether every queue could be read.
    """

    reading: TopicReading
    curves: list[Curve]
    in_rates: Sequence[Rate]
    elapsed: float
    retention: list[float | None]
    skew: QueueSkew | None
    same: bool
    whole: bool


@dataclass(frozen=True, slots=True)
class Now:
    """A scan's place in time, for the rules.

    Attributes:
        at: when it began.
        before: when the scan before it began; the same if there was none.
        long_ago: what has been so since then, or longer, was so in the whole window of STALL
            and GROWING.
        lately: what has happened since then may be going on.
        settings: of the evaluator.
    """

    at: float
    before: float
    long_ago: float
    lately: float
    settings: Settings


@dataclass(frozen=True, slots=True)
class Totals:
    """What the sums of a pair are made of, and time alone does not change.

    Attributes:
        backlog, unknown, states, lost: as in Sums.
        head_at: when the oldest known head of a backlog was stored.
        eaten_at: when retention reaches the first of them.
    """

    backlog: int | None
    unknown: int
    states: Mapping[QueueState, int]
    lost: int
    head_at: float | None
    eaten_at: float | None


@dataclass(slots=True)
class Pair:
    """One topic in one group. Not changed once judged, so old snapshots stay as they are.

    Attributes:
        group: its name.
        topic: with the group's queues.
        signs: of the group.
        now: when.
        committed: offset of each queue, NEVER or NOT_READ.
        out_rates: messages a second committed.
        elapsed: seconds over which that was taken.
        track: what is remembered.
        backlog: of each queue.
        codes: the number of each queue's rule.
        totals: for its sums.
    """

    group: str
    topic: Topic
    signs: Signs
    now: Now
    committed: Sequence[int]
    out_rates: Sequence[Rate]
    elapsed: float
    track: Track
    backlog: Backlog = ()
    codes: bytes = b""
    totals: Totals | None = None

    def record(self, place: int) -> QueueRecord | None:
        """What the state record says of a queue."""
        records = self.signs.records
        return records.get(self.topic.reading.queues[place]) if records else None

    def recreation(self, place: int) -> Recreation | None:
        """What is known of a queue whose topic was made anew."""
        return self.signs.reading.recreated.get(self.topic.reading.queues[place])

    def head_age(self, place: int) -> float | None:
        """Seconds since a queue's first unfinished message was stored."""
        backlog = self.backlog[place]
        if not backlog:
            return None if backlog is None else 0.0
        stored_at = self.track.head_at[place]
        return None if stored_at == NOT_KNOWN else max(0.0, self.now.at - stored_at)

    @property
    def rates_known(self) -> bool:
        """Whether all rates are known, and taken over long enough."""
        known = None not in self.out_rates and None not in self.topic.in_rates
        return known and min(self.elapsed, self.topic.elapsed) >= LEAST_FOR_ETA

    def drain_eta(self, place: int) -> float | None:
        """Seconds until a queue's backlog is worked off."""
        elapsed = min(self.elapsed, self.topic.elapsed)
        in_rate, out_rate = self.topic.in_rates[place], self.out_rates[place]
        return drain_eta(self.backlog[place], in_rate, out_rate, elapsed)

    def retention_eta(self, place: int) -> float | None:
        """Seconds until the broker deletes what a queue's group has not consumed."""
        retention = self.topic.retention[place]
        return retention_eta(self.backlog[place], self.head_age(place), retention)


def span(minimum: int, committed: int, maximum: int) -> int | None:
    """Messages from the committed offset, or the oldest stored, to the end; None: not known.

    Of a queue never committed, only that there is nothing in it.
    """
    if minimum < 0 or maximum < 0 or committed > maximum or committed < NEVER:
        return None
    if committed == NEVER:
        return 0 if minimum == maximum else None
    return max(0, maximum - max(committed, minimum))


def backlog_of(signs: Signs, topic: Topic, committed: Sequence[int]) -> Backlog:
    """Messages not finished, of each queue; None: not known."""
    reading = topic.reading
    if signs.broadcasting or not signs.wants(reading.topic):
        return [None] * len(committed)
    if signs.by_key(reading.topic):
        spans = map(span, reading.minimum, committed, reading.maximum)
        anew = {queue for queue, it in signs.reading.recreated.items() if it.recorded}
        return [
            _unfinished(measured, signs.records.get(queue), anew=queue in anew)
            for queue, measured in zip(reading.queues, spans, strict=True)
        ]
    if topic.whole and min(committed, default=0) >= 0:
        ends = zip(reading.minimum, committed, reading.maximum, strict=True)
        plain = [high - max(offset, low) for low, offset, high in ends]
        if min(plain, default=0) >= 0:  # nothing ahead
            return array("q", plain)
    return list(map(span, reading.minimum, committed, reading.maximum))


def _unfinished(
    measured: int | None, record: QueueRecord | None, *, anew: bool = False
) -> int | None:
    """The span without what is finished ahead; nothing in it is certain without a record, too.

    Of a topic made anew everything, whatever offset the broker has: members begin at its start.
    """
    if anew and record is not None:
        return record.unfinished
    if not measured:
        return measured
    return None if record is None else min(measured, max(0, record.unfinished))


def stored_times(pair: Pair, delays: Mapping[int, float], asked_at: float) -> dict[int, float]:
    """When heads were stored, by place, from how old the broker said that they were.

    Only of queues whose group has not committed since.
    """
    return {
        place: asked_at - delay
        for place, delay in delays.items()
        if pair.backlog[place] and pair.track.moved_at[place] <= asked_at
    }
