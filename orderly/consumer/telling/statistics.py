"""How fast a consumer works, per topic, over the last minute and hour.

What `mqadmin consumerStatus` shows of a member (Java: ConsumerStatsManager, StatsItem). Time is
an argument; all that is kept is sums of 10 seconds, for one hour.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

_SPAN = 10.0  # seconds that share one set of sums, as Java samples
_MINUTE = 6  # spans, besides the one that has just begun
_HOUR = 360


class ReturnType(StrEnum):
    """How a call of the handler ended (Java: ConsumeReturnType)."""

    SUCCESS = "SUCCESS"
    TIME_OUT = "TIME_OUT"
    EXCEPTION = "EXCEPTION"
    RETURNNULL = "RETURNNULL"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """One topic at one moment.

    Attributes:
        consume_seconds: mean time of a handler's call in the last minute; in the last hour if
            there was none in the last minute (as Java).
        consumed_per_second, failed_per_second: messages in the last minute.
        failed_last_hour: messages; each failed attempt counts.
        pull_seconds: mean time of a pull in the last minute.
        pulled_per_second: messages in the last minute.
        calls: calls of the handler since the start, by how they ended.
    """

    consume_seconds: float
    consumed_per_second: float
    failed_per_second: float
    failed_last_hour: int
    pull_seconds: float
    pulled_per_second: float
    calls: Mapping[ReturnType, int]


class Statistics:
    """Counts of one consumer. Thread-safe; `now` is seconds on one clock that never goes back."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}

    def consumed(
        self, topic: str, messages: int, seconds: float, kind: ReturnType, now: float, *, ok: bool
    ) -> None:
        """Note one call of the handler.

        Args:
            topic: of the messages.
            messages: how many it was given.
            seconds: how long it took.
            kind: how it ended.
            now: when it ended.
            ok: whether the messages were done; TIME_OUT says only that it took long.
        """
        found = self._topic(topic, now)
        with found.lock:
            sums = found.current(now)
            sums.calls += 1
            sums.call_seconds += seconds
            if ok:
                sums.done += messages
            else:
                sums.failed += messages
            found.calls[kind] += 1

    def pulled(self, topic: str, messages: int, seconds: float, now: float) -> None:
        """Note one pull that was answered `seconds` after it was sent."""
        found = self._topic(topic, now)
        with found.lock:
            sums = found.current(now)
            sums.pulls += 1
            sums.pull_seconds += seconds
            sums.pulled += messages

    def of(self, topic: str, now: float) -> TopicStatistics:
        """What is known of `topic`; zeros if nothing is."""
        found = self._topics.get(topic) or _Topic(now)
        with found.lock:
            return found.snapshot(now)

    def topics(self) -> tuple[str, ...]:
        """The topics that anything was noted of, sorted."""
        return tuple(sorted(self._topics))

    def _topic(self, topic: str, now: float) -> _Topic:
        found = self._topics.get(topic)
        return self._topics.setdefault(topic, _Topic(now)) if found is None else found


@dataclass(slots=True)
class _Sums:
    """What happened in one span; `number` counts spans on the clock, `end` is when it is over."""

    number: int
    end: float = field(init=False)
    calls: int = 0
    call_seconds: float = 0.0
    done: int = 0
    failed: int = 0
    pulls: int = 0
    pull_seconds: float = 0.0
    pulled: int = 0

    def __post_init__(self) -> None:
        self.end = (self.number + 1) * _SPAN


class _Topic:
    """The spans of one topic in which anything happened, oldest first; `lock` guards them."""

    __slots__ = ("calls", "lock", "since", "spans")

    def __init__(self, now: float) -> None:
        self.lock = threading.Lock()
        self.since = now
        self.calls = dict.fromkeys(ReturnType, 0)
        self.spans = deque([_Sums(_number(now))], maxlen=_HOUR + 1)

    def current(self, now: float) -> _Sums:
        """The sums to add to; an event that waited for the lock may be of the span before."""
        newest = self.spans[-1]
        if now >= newest.end:
            newest = _Sums(_number(now))
            self.spans.append(newest)
        return newest

    def snapshot(self, now: float) -> TopicStatistics:
        hour = [sums for sums in self.spans if sums.number >= _number(now) - _HOUR]
        minute = [sums for sums in hour if sums.number >= _number(now) - _MINUTE]
        began = max(self.since, (_number(now) - _MINUTE) * _SPAN)
        elapsed = max(now - began, _SPAN)  # no rates from a moment
        return TopicStatistics(
            consume_seconds=_mean_call(minute) or _mean_call(hour),
            consumed_per_second=sum(sums.done for sums in minute) / elapsed,
            failed_per_second=sum(sums.failed for sums in minute) / elapsed,
            failed_last_hour=sum(sums.failed for sums in hour),
            pull_seconds=_mean((sums.pull_seconds, sums.pulls) for sums in minute),
            pulled_per_second=sum(sums.pulled for sums in minute) / elapsed,
            calls=dict(self.calls),
        )


def _number(now: float) -> int:
    return int(now // _SPAN)


def _mean_call(spans: Iterable[_Sums]) -> float:
    return _mean((sums.call_seconds, sums.calls) for sums in spans)


def _mean(parts: Iterable[tuple[float, int]]) -> float:
    """Mean of sums and counts; 0.0 of nothing."""
    seconds, count = map(sum, zip((0.0, 0), *parts, strict=True))
    return seconds / count if count else 0.0
