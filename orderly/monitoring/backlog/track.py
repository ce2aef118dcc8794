"""What is remembered of each queue of a (group, topic) from scan to scan, in columns.

Not the window itself but what the rules ask of it: when the committed offset last moved, when the
backlog last got smaller, when its first message was stored. So a queue costs 72 bytes however
long the window is, and nothing if it does not change.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from orderly.monitoring.backlog.curve import Curve

NOT_MEASURED = -1  # in the column `backlog`
NOT_KNOWN = 0.0  # in `head_at`


@dataclass(frozen=True, slots=True)
class Look:
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
    curves: Sequence[Curve]


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

    def follow(self, look: Look) -> Track:
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

    def note(self, place: int, look: Look) -> None:
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

    def _note_head(self, place: int, head: int, backlog: int, curve: Curve) -> None:
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
        """The columns with times of heads that a broker told, by place."""
        new = copy(self)
        for place, stored_at in known.items():
            new.head_at[place] = stored_at
        return new
