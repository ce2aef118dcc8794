"""What a measurement found, and how rates and shares are made of what was noted. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from orderly.bench.histogram import Times

_LEAST_WINDOWS = 5


class Where(StrEnum):
    """What time is spent on; the values are the words of reports."""

    ENCODE = "make, check and encode messages"
    HAND_OVER = "hand requests to the socket"
    ANSWERS = "take in answers to sends"
    DECODE = "read and decode pulled messages"
    TAKE_IN = "queue them, ask for the next"
    HANDLER = "handler: read the message, check the order"
    COMMIT = "commit offsets"
    OTHER = "the rest: call the handler, locks, timers"
    HANDLER_WAIT = "handler: wait (--handler-ms)"
    BROKER = "wait for the broker"
    PACING = "wait for the next message of --rate"
    MESSAGES = "wait for messages"


BOOKED = (Where.ENCODE, Where.HAND_OVER, Where.ANSWERS, Where.DECODE, Where.TAKE_IN, Where.COMMIT)
IDLE = (Where.HANDLER_WAIT, Where.BROKER, Where.PACING, Where.MESSAGES)
_ALWAYS_TOLD = (Where.OTHER, Where.BROKER)  # that nothing of it is the broker's is an answer, too


@dataclass(frozen=True, slots=True)
class Rate:
    """How many a second, over stretches of time.

    Attributes:
        mean: over all.
        minimum, median, maximum: of the stretches.
    """

    mean: float
    minimum: float
    median: float
    maximum: float


@dataclass(frozen=True, slots=True)
class Sent:
    """The sending side.

    Attributes:
        planned: how many messages were to be sent.
        messages: acknowledged.
        bytes: of their bodies.
        rate: messages.
        latency: of each message: until `send` returned, or the future of `submit` was told.
        requests: answered.
        round_trip: of requests, until the answer was taken in.
        failed: messages, by the kind of error.
        failed_requests: attempts, by the kind of error; they were made again, or given up.
        sync: whether each thread waited for each answer.
        threads: that sent.
        wanted_rate: messages a second; None: as fast as it goes.
        full: how full batches were, of their messages or their bytes; 1 with `sync`.
        hot_share: the busiest key's share of the messages, as planned.
    """

    planned: int
    messages: int
    bytes: int
    rate: Rate
    latency: Times | None
    requests: int
    round_trip: Times | None
    failed: Mapping[str, int]
    failed_requests: Mapping[str, int]
    sync: bool
    threads: int
    wanted_rate: float | None
    full: float
    hot_share: float


@dataclass(frozen=True, slots=True)
class Consumed:
    """The consuming side.

    Attributes:
        expected: how many messages were there to be consumed; None: not known.
        messages: handled, repeats included.
        bytes: of their bodies.
        rate: messages.
        first_after: seconds from the start to the first message.
        latency: from before the send to the handler; None if it was a backlog.
        pulls: that brought messages.
        round_trip: of those, until the messages were taken in; with what the broker waited.
        empty_pulls: that brought none.
        failed_requests: pulls and commits, by the kind of error.
        commits: answered.
        commit_time: of them.
        keys: how many were seen.
        inversions, repeats, missing: as in `OrderCheck`.
        by_key: whether the order is by key.
        queues: held.
        calls_at_once: `ConsumerConfig.concurrency`.
        busy: calls of the handler that waited at once, on average.
        handler_ms: how long each call waits.
    """

    expected: int | None
    messages: int
    bytes: int
    rate: Rate
    first_after: float | None
    latency: Times | None
    pulls: int
    round_trip: Times | None
    empty_pulls: int
    failed_requests: Mapping[str, int]
    commits: int
    commit_time: Times | None
    keys: int
    inversions: int
    repeats: int
    missing: int
    by_key: bool
    queues: int
    calls_at_once: int
    busy: float
    handler_ms: float

    @property
    def lost(self) -> int:
        """Messages that did not come."""
        return 0 if self.expected is None else max(0, self.expected - self.messages + self.repeats)


@dataclass(frozen=True, slots=True)
class Span:
    """One stretch of measuring.

    Attributes:
        seconds: how long.
        window: seconds of a stretch for the slowest and fastest rate.
        cpu: seconds of this process.
        rss: bytes of memory, the most that was seen.
        load: threads of this machine that wanted to run, for each core, over the last minute.
        where: shares of the time, or of the CPU time if that is more; they make 1.
        ended: "done", "time", "stalled" or "interrupted".
        sent, consumed: the sides that were at work.
    """

    seconds: float
    window: float
    cpu: float
    rss: int
    load: float
    where: Mapping[Where, float]
    ended: str
    sent: Sent | None = None
    consumed: Consumed | None = None

    @property
    def cpu_share(self) -> float:
        """Cores that were busy, on average."""
        return self.cpu / self.seconds if self.seconds else 0.0

    @property
    def cpu_per_100k(self) -> float | None:
        """CPU seconds for 100,000 messages; sent and consumed ones count once."""
        sides = (self.sent, self.consumed)
        messages = max(side.messages for side in sides if side is not None)
        return self.cpu / messages * 100_000 if messages else None


@dataclass(slots=True)
class Curve:
    """A count that rises; `times` and `values` are as it was seen."""

    times: list[float] = field(default_factory=list)
    values: list[int] = field(default_factory=list)

    def at(self, moment: float) -> float:
        """The value at a time, on a straight line between two that were seen."""
        place = bisect_left(self.times, moment)
        if place == 0:
            return self.values[0]
        if place == len(self.times):
            return self.values[-1]
        (early, late), (low, high) = (
            self.times[place - 1 : place + 1],
            self.values[place - 1 : place + 1],
        )
        return low + (high - low) * (moment - early) / (late - early)


def window_of(seconds: float) -> float:
    """How long the stretches are of which the slowest and the fastest are told: 1 s, or less."""
    return min(1.0, seconds / _LEAST_WINDOWS)


def rate_of(curve: Curve, start: float, end: float) -> Rate:
    """The rate of a count from `start` to `end`, and in the whole stretches between."""
    if end <= start or not curve.times:
        return Rate(0.0, 0.0, 0.0, 0.0)
    window = window_of(end - start)
    steps = int((end - start) / window + 1e-9)
    marks = [curve.at(start + step * window) for step in range(steps + 1)]
    rates = [(late - early) / window for early, late in pairwise(marks)]
    mean = (curve.at(end) - curve.at(start)) / (end - start)
    return Rate(mean, min(rates), statistics.median(rates), max(rates))


def shares_of(
    seconds: float, cpu: float, booked: Mapping[Where, float], idle: Sequence[Where]
) -> dict[Where, float]:
    """What the time went to.

    Args:
        seconds: of the span.
        cpu: seconds of this process; what is not booked is `Where.OTHER`.
        booked: CPU seconds.
        idle: what was waited for, each time one looked.

    Returns:
        Shares that make 1; of those that are nothing only the rest and the broker's.
    """
    whole = max(seconds, cpu, sum(booked.values())) or 1.0
    parts = dict(booked)
    parts[Where.OTHER] = max(0.0, cpu - sum(booked.values()))
    rest = max(0.0, whole - sum(parts.values()))
    for kind in IDLE:
        if idle:
            parts[kind] = rest * idle.count(kind) / len(idle)
    shares = {kind: parts.get(kind, 0.0) / whole for kind in Where}
    return {kind: share for kind, share in shares.items() if share > 0 or kind in _ALWAYS_TOLD}
