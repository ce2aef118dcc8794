"""How fast a consumer works, per topic, over the last minute and hour.

What `mqadmin consumerStatus` shows of a member (Java: ConsumerStatsManager, StatsItem). Time is
an argument; all that is kept is sums of 10 seconds, for one hour.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

_SPAN = 10.0  # seconds that share one set of sums, as Java samples
_MINUTE = 6  # spans, besides the one that has just begun
_HOUR = 360
_TOGETHER = 64  # events that are added up at once

N = TypeVar("N")


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
        repeats_skipped: repeated sends since the start, which no handler got.
    """

    consume_seconds: float
    consumed_per_second: float
    failed_per_second: float
    failed_last_hour: int
    pull_seconds: float
    pulled_per_second: float
    calls: Mapping[ReturnType, int]
    repeats_skipped: int = 0


class Notes(Generic[N]):
    """Events that many threads note and one adds up. Thread-safe.

    They are put down without a lock and added up later, by whoever finds that nobody does it: a
    lock that each call of each thread takes is a queue in which they wait for the interpreter, too
    (at times it took twice as long as all the rest).

    Args:
        add: adds one up; called by one thread at a time.

    Attributes:
        lock: hold it for `add_up`, and to read what `add` wrote.
    """

    def __init__(self, add: Callable[[N], None]) -> None:
        self.lock = threading.Lock()
        self._add = add
        self._noted: deque[N] = deque()

    def note(self, event: N) -> None:
        """Put one down; adds all up if there are many and nobody does it."""
        self._noted.append(event)
        if len(self._noted) >= _TOGETHER and self.lock.acquire(blocking=False):
            try:
                self.add_up()
            finally:
                self.lock.release()

    def add_up(self) -> None:
        """Add up what is noted; hold the lock."""
        for _ in range(len(self._noted)):  # and not what comes meanwhile, for ever
            self._add(self._noted.popleft())


class Statistics:
    """Counts of one consumer. Thread-safe; `now` is seconds on one clock that never goes back."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._notes = Notes(self._add)

    def consumed(
        self,
        topic: str,
        messages: int,
        seconds: float,
        kind: ReturnType,
        now: float,
        *,
        ok: bool,
        calls: int = 1,
    ) -> None:
        """Note calls of the handler that ended in the same way, most often one.

        Args:
            topic: of the messages.
            messages: how many they were given together.
            seconds: how long they took together.
            kind: how they ended.
            now: when the last of them ended.
            ok: whether the messages were done; TIME_OUT says only that it took long.
            calls: how many calls.
        """
        self._notes.note((topic, now, messages, seconds, kind, ok, calls))

    def pulled(self, topic: str, messages: int, seconds: float, now: float) -> None:
        """Note one pull that was answered `seconds` after it was sent."""
        self._notes.note((topic, now, messages, seconds, None, True, 1))

    def repeated(self, topic: str, now: float) -> None:
        """Note a repeated send that no handler gets."""
        with self._notes.lock:
            self._topic(topic, now).repeats += 1

    def of(self, topic: str, now: float) -> TopicStatistics:
        """What is known of `topic`; zeros if nothing is."""
        with self._notes.lock:
            self._notes.add_up()
            found = self._topics.get(topic) or _Topic(now)
            return found.snapshot(now)

    def topics(self) -> tuple[str, ...]:
        """The topics that anything was noted of, sorted."""
        with self._notes.lock:
            self._notes.add_up()
            return tuple(sorted(self._topics))

    def _add(self, event: _Event) -> None:
        topic, now, messages, seconds, kind, ok, calls = event
        self._topic(topic, now).add(now, messages, seconds, kind, ok=ok, calls=calls)

    def _topic(self, topic: str, now: float) -> _Topic:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = _Topic(now)
        return found


# topic, now, messages, seconds, how the calls ended (None: it is a pull), whether they were done,
# how many calls
_Event = tuple[str, float, int, float, ReturnType | None, bool, int]


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
    """The spans of one topic in which anything happened, oldest first."""

    __slots__ = ("calls", "repeats", "since", "spans")

    def __init__(self, now: float) -> None:
        self.since = now
        self.calls = dict.fromkeys(ReturnType, 0)
        self.repeats = 0
        self.spans = deque([_Sums(_number(now))], maxlen=_HOUR + 1)

    def add(
        self,
        now: float,
        messages: int,
        seconds: float,
        kind: ReturnType | None,
        *,
        ok: bool,
        calls: int,
    ) -> None:
        """Add calls, or with no `kind` a pull."""
        sums = self._current(now)
        if kind is None:
            sums.pulls += 1
            sums.pull_seconds += seconds
            sums.pulled += messages
            return
        sums.calls += calls
        sums.call_seconds += seconds
        self.calls[kind] += calls
        if ok:
            sums.done += messages
        else:
            sums.failed += messages

    def _current(self, now: float) -> _Sums:
        """The sums to add to; an event that was noted late may be of the span before."""
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
            repeats_skipped=self.repeats,
        )


def _number(now: float) -> int:
    return int(now // _SPAN)


def _mean_call(spans: Iterable[_Sums]) -> float:
    return _mean((sums.call_seconds, sums.calls) for sums in spans)


def _mean(parts: Iterable[tuple[float, int]]) -> float:
    """Mean of sums and counts; 0.0 of nothing."""
    seconds, count = 0.0, 0
    for more_seconds, more in parts:
        seconds += more_seconds
        count += more
    return seconds / count if count else 0.0
