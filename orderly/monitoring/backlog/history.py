"""What is remembered from scan to scan: how queues grew, how fast offsets move. Pure."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Collection, Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from operator import sub
from typing import Protocol, TypeVar

PATIENCE = 2  # scans


class Forgettable(Protocol):
    """What is remembered of a topic, a group or a pair of them."""

    absent: int  # scans in a row without it; who finds it again sets it to 0


K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Forgettable)


def forget_absent(memories: dict[K, R], present: Collection[K]) -> None:
    """Count a scan for those that are not `present`, and drop them when they were away too long."""
    for key in memories.keys() - set(present):
        memories[key].absent += 1
        if memories[key].absent >= PATIENCE:
            del memories[key]


# --- when a message was stored, from how a queue grew ---------------------------------------------
# A queue's end at several moments is known; between two of them the queue is taken to have grown
# evenly. Never beyond them: a message older than the first point has an unknown age, not a guessed
# one (kafka-lag-exporter extrapolates, and reports years for a group that starts over).


POINTS = 60
_HALF = 0.5  # the end M at a moment: message M - 1 was there, M was not; so M - 0.5 came just then


class OffsetHistory:
    """The end of one queue over time. Keeps the ends of level stretches only.

    Not thread-safe. A queue that got shorter (recreated) starts over.
    """

    __slots__ = ("_ends", "_times")

    def __init__(self) -> None:
        self._times = array("d")
        self._ends = array("q")

    def note(self, at: float, end: int) -> None:
        """The offset the next message gets, as of now."""
        times, ends = self._times, self._ends
        if ends and end < ends[-1]:
            del times[:], ends[:]
        if len(ends) > 1 and ends[-1] == end == ends[-2]:
            times[-1] = at
            return
        times.append(at)
        ends.append(end)
        if len(ends) > POINTS:
            del times[0], ends[0]

    def stored_at(self, offset: int, known: int, known_at: float) -> float | None:
        """When a message was stored; None: before the first point, or not yet.

        Args:
            offset: the message's.
            known: an older message whose time is known, or -1: so there is one more point.
            known_at: its time.
        """
        times, ends = self._times, self._ends
        after = bisect_right(ends, offset)
        if after == len(ends):
            return None
        if after:
            start, start_at = ends[after - 1] - _HALF, times[after - 1]
        elif 0 <= known <= offset:
            start, start_at = known, min(known_at, times[0])
        else:
            return None
        share = (offset - start) / (ends[after] - _HALF - start) if offset != start else 0.0
        return start_at + share * (times[after] - start_at)


# --- how fast offsets move: when a backlog is worked off, when it is deleted ----------------------


Rate = float | None
Rates = Sequence[Rate]

COMMIT_PERIOD = 5.0  # seconds between commits (Java: persistConsumerOffsetInterval)
# One commit more or less at either end: over six periods an error of at most a sixth.
LEAST_FOR_ETA = 6 * COMMIT_PERIOD
# What is worked off within two periods is under way: every busy queue has it, at the steadiest pace
UNDER_WAY = 2 * COMMIT_PERIOD


class RateEstimator:
    """Where offsets were some time ago; two of them take turns, so that one is old enough.

    The base of a rate is the first values seen, later values of between half a window and a
    window ago. Not thread-safe.
    """

    __slots__ = ("_new", "_new_at", "_old", "_old_at")

    def __init__(self, at: float, values: Sequence[int]) -> None:
        self._old = self._new = array("q", values)
        self._old_at = self._new_at = at

    def rates(self, at: float, values: Sequence[int], window: float) -> tuple[Rates, float]:
        """Growth a second of each value since the base, and how long ago that was.

        None where a value is below 0 (not known) on either side, or shrank.
        """
        elapsed = at - self._old_at
        old = self._old
        if elapsed <= 0:
            return [None] * len(values), 0.0
        if min(values) >= 0 and min(old) >= 0:
            grown = list(map(sub, values, old))
            if min(grown) >= 0:
                rates: Rates = array("d", [growth / elapsed for growth in grown])
            else:
                rates = [growth / elapsed if growth >= 0 else None for growth in grown]
        else:
            rates = [
                (now - then) / elapsed if now >= then >= 0 else None
                for now, then in zip(values, old, strict=True)
            ]
        if at - self._new_at >= window / 2:
            self._old, self._old_at = self._new, self._new_at
            self._new, self._new_at = array("q", values), at
        return rates, elapsed


def drain_eta(backlog: int | None, in_rate: Rate, out_rate: Rate, elapsed: float) -> Rate:
    """Seconds until a backlog is worked off at this pace; inf: never; None: not known.

    Messages that are only under way are all done in the time that so many take: what comes in
    behind them does not count.

    Args:
        backlog: messages.
        in_rate: messages a second stored.
        out_rate: messages a second committed.
        elapsed: seconds over which the rates were taken.
    """
    if backlog == 0:
        return 0.0
    if backlog is None or in_rate is None or out_rate is None or elapsed < LEAST_FOR_ETA:
        return None
    if backlog <= out_rate * UNDER_WAY:
        return backlog / out_rate
    return backlog / (out_rate - in_rate) if out_rate > in_rate else math.inf


def retention_eta(backlog: int | None, head_age: float | None, retention: float | None) -> Rate:
    """Seconds until the broker deletes the first message not consumed; inf: nothing to delete.

    Args:
        backlog: messages.
        head_age: seconds since that message was stored.
        retention: seconds for which the broker keeps messages.
    """
    if backlog == 0:
        return math.inf
    if backlog is None or head_age is None or retention is None:
        return None
    return max(0.0, retention - head_age)


# --- each queue of a (group, topic), in columns ---------------------------------------------------
# Not the window itself but what the rules ask of it: when the committed offset last moved, when
# the backlog last got smaller, when its first message was stored. So a queue costs 72 bytes
# however long the window is, and nothing if it does not change.


NOT_MEASURED = -1  # in the column `backlog`
NOT_KNOWN = 0.0  # in `head_at`


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the queues of a (group, topic), in columns.

    Attributes:
        at, before: when this scan and the one before it began.
        committed: offsets as read.
        heads: offset of the first message of each backlog.
        backlog: messages, or None.
        ends: offset that the next message of each queue gets.
        curves: how the queues grew.
    """

    at: float
    before: float
    committed: Sequence[int]
    heads: Sequence[int]
    backlog: Sequence[int | None]
    ends: Sequence[int]
    curves: Sequence[OffsetHistory]


_START: dict[str, array[int] | array[float]] = {
    "offset": array("q", (NOT_MEASURED,)),
    "backlog": array("q", (NOT_MEASURED,)),
    "moved_at": array("d", (0.0,)),
    "eased_at": array("d", (0.0,)),
    "grew_at": array("d", (0.0,)),
    "done": array("q", (NOT_MEASURED,)),
    "done_at": array("d", (0.0,)),
    "head": array("q", (NOT_MEASURED,)),
    "head_at": array("d", (NOT_KNOWN,)),
}


class Track:
    """Columns, one entry a queue. Readers may hold an old one: `follow` makes a new one.

    Attributes:
        offset: committed, as last read.
        backlog: as of the last scan, or NOT_MEASURED.
        moved_at: when the committed offset was last seen to change, or was first read.
        eased_at: when the backlog last got smaller or was 0, or was first read.
        grew_at: when the backlog last got larger.
        done: how many messages of the queue are finished, ahead of the offset, too.
        done_at: when that last got more.
        head: offset of the first message of the backlog.
        head_at: when that message was stored, by our clock, or NOT_KNOWN.
        rewinds: by place, for offsets that went back: where they were, and when it was seen.
    """

    __slots__ = (*_START, "rewinds")

    offset: array[int]
    backlog: array[int]
    moved_at: array[float]
    eased_at: array[float]
    grew_at: array[float]
    done: array[int]
    done_at: array[float]
    head: array[int]
    head_at: array[float]
    rewinds: dict[int, tuple[int, float]]

    def __init__(self, count: int) -> None:
        for name, value in _START.items():
            setattr(self, name, value * count)
        self.rewinds = {}

    def __copy__(self) -> Track:
        twin = object.__new__(Track)
        twin.offset, twin.backlog = self.offset[:], self.backlog[:]
        twin.moved_at = self.moved_at[:]
        twin.eased_at, twin.grew_at = self.eased_at[:], self.grew_at[:]
        twin.done, twin.done_at = self.done[:], self.done_at[:]
        twin.head, twin.head_at = self.head[:], self.head_at[:]
        twin.rewinds = self.rewinds.copy()
        return twin

    def still_since(self, place: int) -> float:
        """Since when nothing was committed or finished, and the backlog did not get smaller."""
        return max(self.moved_at[place], self.eased_at[place], self.done_at[place])

    def picked(self, places: Sequence[int | None]) -> Track:
        """These entries, in this order; None: one that is new."""
        twin = Track(len(places))
        for place, old in enumerate(places):
            if old is None:
                continue
            for name in _START:
                getattr(twin, name)[place] = getattr(self, name)[old]
            if old in self.rewinds:
                twin.rewinds[place] = self.rewinds[old]
        return twin

    def follow(self, look: Sample) -> Track:
        """The columns after one more look; itself if nothing changed."""
        heads, committed, offset, head, then = (
            look.heads, look.committed, self.offset, self.head, self.backlog,
        )  # fmt: skip
        ends, done = look.ends, self.done
        changed = [
            place
            for place, now in enumerate(look.backlog)
            if (NOT_MEASURED if now is None else now) != then[place]
            or (now is not None and heads[place] != head[place])
            or (now is not None and committed[place] != offset[place])
            or (now is not None and ends[place] - now != done[place])
        ]
        if not changed:
            return self
        new = copy(self)
        for place in changed:
            new.note(place, look)
        return new

    def note(self, place: int, look: Sample) -> None:
        """One queue, as a look shows it."""
        now = look.backlog[place]
        if now is None:
            self.backlog[place] = NOT_MEASURED
            return
        self._note_head(place, look.heads[place], now, look.curves[place])
        self._note_backlog(place, look.at, look.before, now)
        finished = look.ends[place] - now
        if finished > self.done[place]:
            self.done_at[place] = look.at
        self.done[place] = finished
        committed, offset = look.committed[place], self.offset[place]
        if committed != offset:
            self.moved_at[place], self.offset[place] = look.at, committed
            if committed < offset or place in self.rewinds:
                self._note_rewind(place, look.at, committed, offset)

    def _note_head(self, place: int, head: int, backlog: int, curve: OffsetHistory) -> None:
        """Find when the head was stored. That of a head that stays never changes."""
        stored_at = self.head_at[place]
        if head != self.head[place] or stored_at == NOT_KNOWN:
            known = NOT_MEASURED if stored_at == NOT_KNOWN else self.head[place]
            found = curve.stored_at(head, known, stored_at) if backlog else None
            self.head_at[place] = NOT_KNOWN if found is None else found
            self.head[place] = head

    def _note_backlog(self, place: int, at: float, before: float, backlog: int) -> None:
        then = self.backlog[place]
        if then == NOT_MEASURED:
            self.moved_at[place] = self.eased_at[place] = at
        elif backlog < then:
            self.eased_at[place] = at
        elif backlog > then:
            self.grew_at[place] = at
            if then == 0:  # nothing was noted while it stayed 0
                self.eased_at[place] = before
        self.backlog[place] = backlog

    def _note_rewind(self, place: int, at: float, committed: int, offset: int) -> None:
        high, _ = self.rewinds.get(place, (offset, at))
        if committed < offset:
            self.rewinds[place] = (max(high, offset), at)
        elif committed >= high:
            self.rewinds.pop(place, None)

    def without_rewinds(self, places: Collection[int]) -> Track:
        """The columns without offsets that went back there: those count another topic now."""
        if not any(place in self.rewinds for place in places):
            return self
        new = copy(self)
        for place in places:
            new.rewinds.pop(place, None)
        return new

    def with_heads(self, known: Mapping[int, float]) -> Track:
        """The columns with times of heads that a broker gave, by place."""
        new = copy(self)
        for place, stored_at in known.items():
            new.head_at[place] = stored_at
        return new
