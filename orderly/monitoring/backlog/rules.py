"""The rules that give a queue its state, in the order of their numbers.

A rule is two functions of a topic in a group and a queue's place in it. One says whether the rule
applies. The other gives the cause in words; it is called only for rows that somebody looks at.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import lt

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.history import (
    COMMIT_PERIOD,
    LEAST_FOR_ETA,
    NOT_KNOWN,
    OffsetHistory,
    Rate,
    Track,
    drain_eta,
    retention_eta,
)
from orderly.monitoring.backlog.members import GroupObservation, QueueTrouble
from orderly.monitoring.backlog.reading import NEVER, QueueRecord, Recreation, TopicReading
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict
from orderly.monitoring.backlog.thresholds import NO_THRESHOLDS, Measure, Thresholds
from orderly.monitoring.texts import counted

Backlog = Sequence[int | None]


@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """How the evaluator looks back, and from when on it calls something a problem.

    Attributes:
        window: seconds over which rates are taken (at least half of it), and for which a committed
            offset that went back is shown.
        min_window: seconds without a commit (STALL) or without a smaller backlog (GROWING) before
            a queue is said to be in trouble. Clients commit every 5 s; a handler that takes longer
            than this for one message looks like a stall.
        min_points: scans within that time, at the least.
        blocked_after: seconds one handler call may take before it is BLOCKED.
        thresholds: limits of a single queue: above one it is LAGGING.

    Raises:
        ConfigError: a time that is not positive, fewer than 2 points, or a window that is too
            short.
    """

    window: float = 300.0
    min_window: float = 120.0
    min_points: int = 3
    blocked_after: float = 60.0
    thresholds: Thresholds = NO_THRESHOLDS

    def __post_init__(self) -> None:
        for name in ("window", "min_window", "blocked_after"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if self.min_points < 2:
            raise ConfigError(f"min_points must be 2 or more, not {self.min_points}")
        if self.window < self.min_window:
            raise ConfigError(f"window {self.window:g} s must be min_window or longer")


@dataclass(slots=True)
class Topic:
    """A topic in one scan, the same for all groups. Not changed once made.

    Attributes:
        reading: its queues and offsets.
        curves: how each queue grew.
        in_rates: messages a second stored into each.
        elapsed: seconds over which the rates were taken.
        retention: seconds for which each queue's broker keeps messages.
        skew: of the inflow.
        same: whether queues and offsets are those of the previous scan.
        whole: whether every queue could be read.
        closed: by broker, why nobody may read there.
    """

    reading: TopicReading
    curves: list[OffsetHistory]
    in_rates: Sequence[Rate]
    elapsed: float
    retention: list[float | None]
    skew: QueueSkew | None
    same: bool
    whole: bool
    closed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Now:
    """A scan's place in time, for the rules.

    Attributes:
        at: when it began.
        before: when the previous scan began; the same as `at` if there was none.
        long_ago: a condition that has lasted since then covers the whole window of STALL and
            GROWING.
        lately: an event after this time can still be going on.
        settings: of the evaluator.
    """

    at: float
    before: float
    long_ago: float
    lately: float
    settings: EvaluationSettings


@dataclass(frozen=True, slots=True)
class GroupTopicTotals:
    """The parts of a pair's sums that time alone does not change.

    Attributes:
        backlog, unknown, states, lost: as in Sums.
        head_at: when the oldest known head of a backlog was stored.
        eaten_at: when the broker deletes the first of them.
    """

    backlog: int | None
    unknown: int
    states: Mapping[QueueState, int]
    lost: int
    head_at: float | None
    eaten_at: float | None


@dataclass(slots=True)
class GroupTopic:
    """One topic in one group. Not changed once judged, so old snapshots stay as they are.

    Attributes:
        group: its name.
        topic: with the group's queues.
        signs: of the group.
        now: when.
        committed: offset of each queue, NEVER or NOT_READ.
        out_rates: messages a second committed.
        elapsed: seconds over which the rates were taken.
        track: what is remembered from earlier scans.
        backlog: of each queue.
        codes: the number of each queue's rule.
        totals: for its sums.
    """

    group: str
    topic: Topic
    signs: GroupObservation
    now: Now
    committed: Sequence[int]
    out_rates: Sequence[Rate]
    elapsed: float
    track: Track
    backlog: Backlog = ()
    codes: bytes = b""
    totals: GroupTopicTotals | None = None

    def record(self, place: int) -> QueueRecord | None:
        """What the state record says of a queue."""
        records = self.signs.records
        return records.get(self.topic.reading.queues[place]) if records else None

    def recreation(self, place: int) -> Recreation | None:
        """What is known of a queue whose topic was created again."""
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
        """Whether all rates are known, and were taken over a long enough time."""
        known = None not in self.out_rates and None not in self.topic.in_rates
        return known and min(self.elapsed, self.topic.elapsed) >= LEAST_FOR_ETA

    def drain_eta(self, place: int) -> float | None:
        """Seconds until a queue's backlog is gone."""
        elapsed = min(self.elapsed, self.topic.elapsed)
        in_rate, out_rate = self.topic.in_rates[place], self.out_rates[place]
        return drain_eta(self.backlog[place], in_rate, out_rate, elapsed)

    def retention_eta(self, place: int) -> float | None:
        """Seconds until the broker deletes what a queue's group has not consumed."""
        retention = self.topic.retention[place]
        return retention_eta(self.backlog[place], self.head_age(place), retention)


def span(minimum: int, committed: int, maximum: int) -> int | None:
    """Messages from the committed offset, or the oldest stored, to the end; None: not known.

    For a queue that was never committed it is known only if the queue is empty.
    """
    if minimum < 0 or maximum < 0 or committed > maximum or committed < NEVER:
        return None
    if committed == NEVER:
        return 0 if minimum == maximum else None
    return max(0, maximum - max(committed, minimum))


def backlog_of(signs: GroupObservation, topic: Topic, committed: Sequence[int]) -> Backlog:
    """Messages not finished, of each queue; None: not known."""
    reading = topic.reading
    if signs.broadcasting or not signs.wants(reading.topic):
        return [None] * len(committed)
    found = _measured(signs, topic, committed)
    if NEVER in committed and max(committed) >= 0:
        found = [
            max(0, high - low) if messages is None and it == NEVER and low >= 0 and
            _nobody_reads(signs, reading, queue) else messages
            for messages, it, low, high, queue in zip(
                found, committed, reading.minimum, reading.maximum, reading.queues, strict=True
            )
        ]  # fmt: skip
    return found


def _nobody_reads(signs: GroupObservation, reading: TopicReading, queue: MessageQueue) -> bool:
    """Whether messages of a queue that was never committed wait for a reader.

    The group is known in the topic: whoever takes such a queue begins at its minimum.
    """
    return queue in reading.unread or queue in signs.astray or queue in signs.orphans


def _measured(signs: GroupObservation, topic: Topic, committed: Sequence[int]) -> Backlog:
    """The same from committed offsets and state records alone."""
    reading = topic.reading
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
    """The span without the messages finished ahead. An empty span needs no record.

    If the topic was created again, it is everything: members begin at the start of the new topic,
    whichever offset the broker has.
    """
    if anew and record is not None:
        return record.unfinished
    if not measured:
        return measured
    return None if record is None else min(measured, max(0, record.unfinished))


def stored_times(
    pair: GroupTopic, delays: Mapping[int, float], asked_at: float
) -> dict[int, float]:
    """When heads were stored, by place, computed from the age that the broker reported.

    Only for queues whose group has not committed since.
    """
    return {
        place: asked_at - delay
        for place, delay in delays.items()
        if pair.backlog[place]
        and pair.track.moved_at[place] <= asked_at
        and pair.committed[place] >= 0  # else brokers answer with the time of day
    }


# --- rules 1 to 3, 9, 11 and 12: what offsets say -------------------------------------------------


def unreadable(pair: GroupTopic, place: int) -> bool:
    """1. UNKNOWN: an offset, or a state record that counts, could not be read."""
    reading = pair.topic.reading
    if pair.committed[place] < NEVER or reading.minimum[place] < 0 or reading.maximum[place] < 0:
        return True
    return _by_record(pair, place) and pair.backlog[place] is None


def _by_record(pair: GroupTopic, place: int) -> bool:
    """Whether the state record decides what the backlog is."""
    within = 0 <= pair.committed[place] <= pair.topic.reading.maximum[place]
    applicable = not pair.signs.broadcasting and pair.signs.wants(pair.topic.reading.topic)
    return within and applicable and pair.signs.by_key(pair.topic.reading.topic)


def why_unreadable(pair: GroupTopic, place: int) -> str:
    """Says which of the two."""
    queue = pair.topic.reading.queues[place]
    if _by_record(pair, place) and pair.topic.reading.maximum[place] >= 0:
        return "its state record could not be read, so the messages finished ahead are not known"
    return f"broker {queue.broker_name} did not answer"


def not_applicable(pair: GroupTopic, _place: int) -> bool:
    """2. NOT_APPLICABLE: the broker's offsets of a broadcasting group are left-overs."""
    return pair.signs.broadcasting or not pair.signs.wants(pair.topic.reading.topic)


def why_not_applicable(pair: GroupTopic, _place: int) -> str:
    """Broadcasting, or no longer subscribed."""
    if pair.signs.broadcasting:
        return "the group broadcasts: members keep their own offsets"
    return "the group no longer subscribes to the topic"


def recreated(pair: GroupTopic, place: int) -> bool:
    """11. RECREATED: the topic was created again; the group has not resumed, or just did."""
    found = pair.recreation(place)
    if found is None or found.recorded:
        return found is not None
    if found.gone_on_at is not None:
        return found.gone_on_at > pair.now.lately
    return pair.now.at - found.at <= pair.now.settings.window


def any_recreated(pair: GroupTopic) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.reading.recreated)


def why_recreated(pair: GroupTopic, place: int) -> str:
    """Both positions, and what follows."""
    found = pair.recreation(place)
    assert found is not None
    stood = f"the topic was created again: the group was at {found.position}"
    stood += " or later" if found.recorded else ""  # a state record may be behind the offset
    stood += " in the old topic"
    start = f"at {pair.topic.reading.minimum[place]}, the first message"
    if found.gone_on_at is not None:
        return f"{stood}, and went on; it is at {pair.committed[place]} now"
    if found.recorded:
        if pair.signs.offline:
            return f"{stood}; no member is connected, and the first to connect begins {start}"
        return f"{stood}; members begin {start}: nothing to do"
    offset = pair.committed[place]
    now = "has no offset now" if offset == NEVER else f"is at {offset} now"
    if pair.signs.offline:
        return f"{stood}, and {now}; no member is connected: its own setting says where it begins"
    return f"{stood}, and {now}; orderly members that had the queue begin {start}"


def new(pair: GroupTopic, place: int) -> bool:
    """9. NEW: never committed, and not because the topic was created again."""
    return pair.committed[place] == NEVER and not recreated(pair, place)


def why_new(pair: GroupTopic, place: int) -> str:
    """Empty, or which member has it: a stock client commits only after its first success."""
    if pair.backlog[place] == 0:
        return "never committed, and empty"
    record = pair.record(place)
    if record is not None:  # a broker that was killed may forget an offset
        return f"the broker has no offset; by the state record the group goes on at {record.low}"
    queue, signs = pair.topic.reading.queues[place], pair.signs
    trouble = signs.blocked.get(queue) or signs.suspended.get(queue)
    if trouble is not None:
        return f"never committed, and its first message is stuck: {trouble.text}"
    if queue in signs.owners:
        return f"never committed: {signs.owners[queue]} has it, and has finished nothing yet"
    return "never committed: the group's own setting says where it starts"


def lost(pair: GroupTopic, place: int) -> bool:
    """3. LOST: committed below what is stored; deleted before anybody consumed it.

    An offset committed in a deleted topic does not count in the new one.
    """
    below = 0 <= pair.committed[place] < pair.topic.reading.minimum[place]
    return below and not recreated(pair, place)


def any_lost(pair: GroupTopic) -> bool:
    """Whether any queue's offset is below what is stored."""
    return any(map(lt, pair.committed, pair.topic.reading.minimum))


def why_lost(pair: GroupTopic, place: int) -> str:
    """How many."""
    count = pair.topic.reading.minimum[place] - pair.committed[place]
    return f"{counted(count, 'message')} deleted before anybody consumed them"


def ahead(pair: GroupTopic, place: int) -> bool:
    """12. AHEAD: committed beyond the end; the topic was created again, or its log was cut."""
    return pair.committed[place] > pair.topic.reading.maximum[place]


def why_ahead(pair: GroupTopic, place: int) -> str:
    """How far."""
    beyond = pair.committed[place] - pair.topic.reading.maximum[place]
    return f"committed {beyond} beyond the end: was the topic created again, or its log truncated?"


# --- rules 4 to 6, 10, 13 and 14: what members say ------------------------------------------------


_HAND_OVER = 5.0  # seconds: between live members a queue is handed over at once
_NOBODYS = (
    "no member has it; or a dead member has, and its lock is free 60 s after the last renewal"
)


def offline(pair: GroupTopic, place: int) -> bool:
    """4. OFFLINE: a backlog; every broker reports no member; no commit since."""
    return pair.signs.offline and bool(pair.backlog[place]) and not _moved_since(pair, place)


def _moved_since(pair: GroupTopic, place: int) -> bool:
    """Whether the group committed after the brokers were asked for members: one came back.

    The first scan cannot know, because everything is new to it.
    """
    first = pair.now.before == pair.now.at
    return not first and pair.track.moved_at[place] > pair.signs.reading.read_at


def why_offline(pair: GroupTopic, place: int) -> str:
    """How many wait, and what keeps members from starting."""
    messages = counted(pair.backlog[place] or 0, "message")
    bar = _bar(pair, place)
    more = "" if bar is None else f"; none can consume: {bar}"
    return f"a backlog of {messages}, and no member of the group is connected{more}"


def orphan(pair: GroupTopic, place: int) -> bool:
    """5. ORPHAN: no member may read the queue, or can; or in two scans none reported it.

    One scan is enough where members that subscribe to other topics leave queues to nobody.
    """
    queue, waits = pair.topic.reading.queues[place], _waits(pair, place)
    if queue in pair.signs.orphans or _cannot_pull(pair, place):
        return True
    if queue in pair.topic.reading.unread and waits:
        return True
    if queue in pair.signs.astray and waits and _outlasts_a_hand_over(pair, place):
        return True
    return _bar(pair, place) is not None and (waits or _attended(pair))


def _waits(pair: GroupTopic, place: int) -> bool:
    """Whether messages wait for a reader: in a queue never committed, all that are stored."""
    reading, backlog = pair.topic.reading, pair.backlog[place]
    if backlog is None and pair.committed[place] == NEVER:
        return reading.minimum[place] < reading.maximum[place]
    return bool(backlog)


def any_orphan(pair: GroupTopic) -> bool:
    """Whether any queue can be an orphan."""
    signs, topic = pair.signs, pair.topic
    return bool(
        signs.orphans or signs.astray or signs.unpulled or signs.barred
        or topic.closed or topic.reading.unread
    )  # fmt: skip


def _attended(pair: GroupTopic) -> bool:
    """Whether members are there that want the topic, whatever waits."""
    return bool(pair.signs.members) and pair.topic.reading.topic in (pair.signs.topics or ())


def _bar(pair: GroupTopic, place: int) -> str | None:
    """What forbids the group to read the queue."""
    broker = pair.topic.reading.queues[place].broker_name
    if broker in pair.signs.barred:
        return f"broker {broker} does not let the group consume (consumeEnable)"
    return pair.topic.closed.get(broker)


def _cannot_pull(pair: GroupTopic, place: int) -> bool:
    """Whether its owner said that it cannot, and nothing was committed since."""
    queue = pair.topic.reading.queues[place]
    return queue in pair.signs.unpulled and not (
        pair.track.moved_at[place] > pair.signs.reading.running_at
    )


def why_orphan(pair: GroupTopic, place: int) -> str:
    """Forbidden, not readable, not pulled, or no member has it."""
    queue, bar = pair.topic.reading.queues[place], _bar(pair, place)
    if bar is not None:
        return f"nobody reads it: {bar}"
    if _cannot_pull(pair, place):
        return pair.signs.unpulled[queue]
    if queue in pair.topic.reading.unread:
        return "messages in a queue that nobody reads: the topic has fewer read queues than that"
    if queue not in pair.signs.orphans:
        return "no member has it, for some members do not subscribe to its topic"
    seen = pair.signs.reading.running_at - pair.signs.orphans[queue]
    return f"no member has had it for {seen:.0f} s: not assigned, or all were refused its lock"


def mixed(pair: GroupTopic, _place: int) -> bool:
    """10. MIXED: the group's members subscribe to the topic in different ways."""
    return pair.topic.reading.topic in pair.signs.mixed


def why_mixed(pair: GroupTopic, _place: int) -> str:
    """How each does."""
    ways = pair.signs.mixed[pair.topic.reading.topic]
    return f"its members subscribe differently, and messages are passed over: {ways}"


def unlocked(pair: GroupTopic, place: int) -> bool:
    """13. UNLOCKED: its owner has held no lock for over 40 s; or it has a backlog and no owner."""
    return pair.topic.reading.queues[place] in pair.signs.unlocked or _unowned(pair, place)


def _unowned(pair: GroupTopic, place: int) -> bool:
    """Whether messages wait in a queue without an owner, for longer than a hand-over takes."""
    if not pair.backlog[place] or pair.topic.reading.queues[place] not in pair.signs.unowned:
        return False
    return _outlasts_a_hand_over(pair, place)


def _outlasts_a_hand_over(pair: GroupTopic, place: int) -> bool:
    """Whether its first message has waited for longer than one takes, and nobody has it by now."""
    if pair.track.moved_at[place] > pair.signs.reading.running_at:
        return False
    age = pair.head_age(place)
    return age is None or age >= _HAND_OVER


def any_unlocked(pair: GroupTopic) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.unlocked or pair.signs.unowned)


def why_unlocked(pair: GroupTopic, place: int) -> str:
    """Which member, and how long; or none."""
    found = pair.signs.unlocked.get(pair.topic.reading.queues[place])
    return found or _NOBODYS


def blocked(pair: GroupTopic, place: int) -> bool:
    """6. BLOCKED: the handler of its first message does not return."""
    return _holds(pair, place, pair.signs.blocked.get(pair.topic.reading.queues[place]))


def any_blocked(pair: GroupTopic) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.blocked)


def why_blocked(pair: GroupTopic, place: int) -> str:
    """Which member, and how long."""
    return pair.signs.blocked[pair.topic.reading.queues[place]].text


def suspended(pair: GroupTopic, place: int) -> bool:
    """14. SUSPENDED: the first message fails, and is tried again."""
    queue = pair.topic.reading.queues[place]
    return _holds(pair, place, pair.signs.suspended.get(queue)) or _attempted(pair, place)


def any_suspended(pair: GroupTopic) -> bool:
    """Whether any queue of the group can be."""
    return bool(pair.signs.suspended or pair.signs.heads)


def why_suspended(pair: GroupTopic, place: int) -> str:
    """Which member, how often, how long."""
    queue = pair.topic.reading.queues[place]
    found = pair.signs.suspended.get(queue)
    if _holds(pair, place, found):
        assert found is not None
        return found.text
    return f"its first message was tried {pair.signs.heads[queue].attempts} times"


def _holds(pair: GroupTopic, place: int, trouble: QueueTrouble | None) -> bool:
    """Whether the trouble that a member reported still lasts."""
    committed = pair.committed[place]
    if trouble is None or not pair.backlog[place] or committed > trouble.offset:
        return False
    if not trouble.at_rest:
        return True
    rested = pair.now.at - pair.track.moved_at[place]
    return committed == trouble.offset and rested >= COMMIT_PERIOD


def _attempted(pair: GroupTopic, place: int) -> bool:
    head = pair.signs.heads.get(pair.topic.reading.queues[place])
    return head is not None and head.offset >= pair.committed[place] and (head.attempts or 0) > 1


# --- rules 7, 8 and 15 to 17: what grows too old, what the scans before say, and thresholds -------


def rewind(pair: GroupTopic, place: int) -> bool:
    """15. REWIND: the committed offset went back in the window, and has not caught up."""
    found = pair.track.rewinds.get(place)
    return found is not None and pair.now.at - found[1] <= pair.now.settings.window


def why_rewind(pair: GroupTopic, place: int) -> str:
    """From where."""
    high, at = pair.track.rewinds[place]
    return f"the committed offset went back: {pair.now.at - at:.0f} s ago it was {high}; a reset?"


def expiring(pair: GroupTopic, place: int) -> bool:
    """7. EXPIRING: half of the first message's retention is over."""
    left, retention = pair.retention_eta(place), pair.topic.retention[place]
    return left is not None and retention is not None and left <= retention / 2


def any_expiring(pair: GroupTopic) -> bool:
    """Whether any queue of the pair can be."""
    return any(pair.backlog)


def why_expiring(pair: GroupTopic, place: int) -> str:
    """When it is deleted."""
    left = pair.retention_eta(place) or 0.0
    return f"the first message is not handled, and the broker can delete it in {left / 3600:.1f} h"


def stall(pair: GroupTopic, place: int) -> bool:
    """8. STALL: a backlog throughout the window, and nothing committed or finished.

    With order by key, a first message that is tried again stops only its own key. So there the rule
    also needs later messages that are not finished.
    """
    since = pair.track.still_since(place)
    if pair.track.backlog[place] <= 0 or since > pair.now.long_ago:
        return False
    one_key = pair.signs.by_key(pair.topic.reading.topic) and suspended(pair, place)
    return not one_key or pair.track.grew_at[place] > since


def why_stall(pair: GroupTopic, place: int) -> str:
    """How long."""
    seconds = pair.now.at - pair.track.still_since(place)
    return f"a backlog, and nothing committed for {seconds:.0f} s"


def growing(pair: GroupTopic, place: int) -> bool:
    """16. GROWING: the backlog got larger, never smaller, and still grows."""
    track = pair.track
    return (
        track.eased_at[place] <= pair.now.long_ago
        and track.grew_at[place] > pair.now.lately
        and track.backlog[place] > 0
    )


def why_growing(pair: GroupTopic, place: int) -> str:
    """Since when."""
    seconds = pair.now.at - pair.track.eased_at[place]
    return f"the backlog grows, and has not got smaller for {seconds:.0f} s"


_OF_A_QUEUE: dict[Measure, Callable[[GroupTopic, int], float | None]] = {
    Measure.BACKLOG: lambda pair, place: pair.backlog[place],
    Measure.HEAD_AGE: GroupTopic.head_age,
    Measure.DRAIN_ETA: GroupTopic.drain_eta,
    Measure.RETENTION_ETA: GroupTopic.retention_eta,
}


def _exceeded(pair: GroupTopic, place: int) -> Measure | None:
    for measure, value_of in _OF_A_QUEUE.items():
        limits = pair.now.settings.thresholds.limits.get(measure)
        value = value_of(pair, place) if limits else None
        if limits is None or value is None:
            continue
        if any(limit is not None and limit.alerts(value) for limit in (limits.warn, limits.crit)):
            return measure
    return None


def lagging(pair: GroupTopic, place: int) -> bool:
    """17. LAGGING: above a threshold, but getting smaller."""
    return _exceeded(pair, place) is not None


def any_threshold(pair: GroupTopic) -> bool:
    """Whether there is a threshold."""
    return bool(pair.now.settings.thresholds.limits)


def why_lagging(pair: GroupTopic, place: int) -> str:
    """Which threshold."""
    measure = _exceeded(pair, place)
    assert measure is not None
    value = _OF_A_QUEUE[measure](pair, place)
    limits = pair.now.settings.thresholds.limits[measure]
    return f"{measure} is {value:.10g}, beyond {limits.warn or limits.crit}"


# --- the table of rules ---------------------------------------------------------------------------
# The first rule that applies gives a queue its state. Critical states come before warnings. The
# causes of some warnings are shown beside a critical one.


Applies = Callable[[GroupTopic, int], bool]
Cause = Callable[[GroupTopic, int], str]


def always(_pair: GroupTopic) -> bool:
    """For a rule that can apply to any pair."""
    return True


@dataclass(frozen=True, slots=True)
class StateRule:
    """A state, when it is given, and why.

    Attributes:
        state: the state it gives.
        applies: whether it applies to a queue of a pair.
        cause: the cause in words.
        possible: whether it can apply to any queue of a pair; saves a look at each.
    """

    state: QueueState
    applies: Applies
    cause: Cause
    possible: Callable[[GroupTopic], bool] = always


def _unmeasured(pair: GroupTopic) -> bool:
    return None in pair.backlog


def _waiting(pair: GroupTopic) -> bool:
    return any(pair.backlog)


def fine(_pair: GroupTopic, _place: int) -> bool:
    """18. OK: nothing is wrong."""
    return True


def no_cause(_pair: GroupTopic, _place: int) -> str:
    """No cause: nothing is wrong."""
    return ""


RULES = (
    StateRule(QueueState.UNKNOWN, unreadable, why_unreadable, _unmeasured),
    StateRule(QueueState.NOT_APPLICABLE, not_applicable, why_not_applicable, _unmeasured),
    StateRule(QueueState.LOST, lost, why_lost, any_lost),
    StateRule(QueueState.OFFLINE, offline, why_offline, lambda p: p.signs.offline),
    StateRule(QueueState.ORPHAN, orphan, why_orphan, any_orphan),
    StateRule(QueueState.BLOCKED, blocked, why_blocked, any_blocked),
    StateRule(QueueState.EXPIRING, expiring, why_expiring, any_expiring),
    StateRule(QueueState.STALL, stall, why_stall, _waiting),
    StateRule(QueueState.NEW, new, why_new, lambda p: NEVER in p.committed),
    StateRule(QueueState.MIXED, mixed, why_mixed, lambda p: bool(p.signs.mixed)),
    StateRule(QueueState.RECREATED, recreated, why_recreated, any_recreated),
    StateRule(QueueState.AHEAD, ahead, why_ahead, _unmeasured),
    StateRule(QueueState.UNLOCKED, unlocked, why_unlocked, any_unlocked),
    StateRule(QueueState.SUSPENDED, suspended, why_suspended, any_suspended),
    StateRule(QueueState.REWIND, rewind, why_rewind, lambda p: bool(p.track.rewinds)),
    StateRule(QueueState.GROWING, growing, why_growing, _waiting),
    StateRule(QueueState.LAGGING, lagging, why_lagging, any_threshold),
    StateRule(QueueState.OK, fine, no_cause),
)

_UNDECIDED = len(RULES)


def codes_of(pair: GroupTopic) -> bytes:
    """The number (from 0) of the first rule that applies to each queue."""
    codes = bytearray((_UNDECIDED,)) * len(pair.committed)
    left: Sequence[int] = range(len(codes))
    for code, rule in enumerate(RULES):
        if not left:
            break
        if rule.possible(pair):
            applies = rule.applies
            for place in left:
                if applies(pair, place):
                    codes[place] = code
            left = [place for place in left if codes[place] == _UNDECIDED]
    return bytes(codes)


def state_and_cause(pair: GroupTopic, place: int) -> tuple[QueueState, str]:
    """The state of a queue and its cause; beside a critical one also those of some warnings."""
    rule = RULES[pair.codes[place]]
    causes = [rule.cause(pair, place)]
    if VERDICTS[rule.state] is Verdict.CRITICAL:
        causes += [
            other.cause(pair, place)
            for other in _SHOWN_BESIDE
            if other.possible(pair) and other.applies(pair, place)
        ]
    if rule.state is QueueState.STALL and len(causes) == 1:
        causes.append("the cause is not visible from here")
    return rule.state, "; ".join(causes)


_SHOWN_BESIDE = tuple(
    rule for rule in RULES
    if rule.state in (
        QueueState.MIXED, QueueState.RECREATED, QueueState.UNLOCKED, QueueState.SUSPENDED,
    )
)  # fmt: skip


_SETTLED = {
    code for code, rule in enumerate(RULES)
    if rule.state in (
        QueueState.UNKNOWN, QueueState.NOT_APPLICABLE, QueueState.NEW, QueueState.LOST,
        QueueState.AHEAD, QueueState.OFFLINE,
    )
}  # fmt: skip


def settled(pair: GroupTopic) -> bool:
    """Whether time alone can change no state: no rule waits for a window to pass."""
    return _SETTLED.issuperset(pair.codes) or not (any(pair.backlog) or pair.track.rewinds)
