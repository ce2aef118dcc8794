"""Messages that end the process of whoever handles them: how they are found, from records alone.

Two owners that ended without closing, without progress in between, are a crash loop: the next
owner runs what may be to blame one message at a time and puts on record which. Two ends during
one message condemn it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from orderly.ordering.offset_runs import Runs, contains
from orderly.protocol.state_record import Confirm, Entry, Record, Trying

# --- what is on record ----------------------------------------------------------------------------


LOOP = 2  # ends without progress: fewer are deploys and accidents
CONDEMNS = 2  # ends while one message was handled
MOST_SUSPECTS = 1000  # on record, and tried in one crash loop before it is given up


@dataclass(frozen=True, slots=True)
class Crashes:
    """What an entry says of them.

    Attributes:
        deaths: how many owners ended without closing since the committed offset last moved; in a
            crash loop, since it began.
        suspects: (offset, how many owners ended while it was handled), rising, not finished.
        trying: the suspect that is being handled.
    """

    deaths: int = 0
    suspects: tuple[tuple[int, int], ...] = ()
    trying: int | None = None

    @property
    def looped(self) -> bool:
        """Whether this is a crash loop."""
        return self.deaths >= LOOP

    @property
    def condemned(self) -> dict[int, int]:
        """The offsets that no handler may see again, with their deaths."""
        return {offset: deaths for offset, deaths in self.suspects if deaths >= CONDEMNS}


NO_CRASHES = Crashes()


# --- the suspects, while one owner holds the queue ------------------------------------------------
# Suspect is what was stored when the queue was taken in a crash loop and is not finished. Each
# message is cleared when a call of the handler with it has come back, with any answer; once
# no lane can go on with anything else, the message that ended the processes is gone. By the
# same rule an owner that follows one death finds whether it has got further: its own end is then
# the first again. So it has if the committed offset moved, or if its handler came back once from
# all there was; not if other keys were finished, for so they are beside a message that kills.


class Suspects:
    """Not thread-safe: the lock of its queue is around every call that changes something.

    Args:
        crashes: what the take-over concluded.
        start: the lowest unfinished offset, then.
        end: the offset after the newest message, then; it counts after a death only.

    Attributes:
        on: suspects are left: one message of the queue is run at a time, each after a record.
        over: `on` has ended, and that is not logged yet.
        condemned: offsets that no handler may see, with their deaths.
        trying: the suspect that is being handled.
    """

    __slots__ = (
        "_cleared",
        "_crashes",
        "_start",
        "_survived",
        "condemned",
        "end",
        "on",
        "over",
        "trying",
    )

    def __init__(self, crashes: Crashes = NO_CRASHES, start: int = 0, end: int = 0) -> None:
        self._crashes = crashes
        self._start = start
        self._cleared: set[int] = set()
        self._survived = crashes.looped  # `on` says what became of the loop
        self.on = crashes.looped and start < end
        self.over = False
        self.end = end
        self.condemned = crashes.condemned
        self.trying: int | None = None

    @property
    def careful(self) -> bool:
        """Whether messages are looked at one by one before they are handled."""
        return self.on or self.over or bool(self.condemned)

    def suspected(self, offset: int) -> bool:
        """Whether a record is due before this message is handled."""
        return self.on and offset < self.end and offset not in self.condemned

    def tries(self, offset: int | None) -> None:
        """A suspect is about to be handled; None: the handler came back from it."""
        if offset is None and self.trying is not None:
            self._cleared.add(self.trying)
        self.trying = offset

    def stopped(self) -> None:
        """The suspect was not handled, or it is not known what came of it."""
        self.trying = None

    def finished(self, offset: int) -> None:
        """A message is settled, by its handler or by being parked."""
        self.condemned.pop(offset, None)

    def came_back(self, offsets: Iterable[int]) -> None:
        """The handler has answered for these messages, and some are not finished."""
        if self.counting:
            self._cleared.update(offset for offset in offsets if offset < self.end)

    @property
    def counting(self) -> bool:
        """True if a former owner's death is to be counted until this one has got further."""
        return self._crashes.deaths > 0 and not self._survived

    def look(self, low: int, pulled: int, heads: Iterable[int]) -> None:
        """See whether suspects are left, or whether this owner has got further than former ones.

        Args:
            low: the lowest unfinished offset.
            pulled: the first offset that was not pulled yet.
            heads: of each lane the lowest unfinished offset, and the next one to be handed out;
                looked through only if need be.
        """
        if not self.on and not self.counting:
            return
        enough = self.on and len(self._cleared) >= MOST_SUSPECTS
        if enough or low >= self.end or (pulled >= self.end and self._all_clear(low, heads)):
            self.over = self.over or self.on
            self.on, self._survived = False, True

    def _all_clear(self, low: int, heads: Iterable[int]) -> bool:
        return self._clear(low) and all(map(self._clear, heads))

    def _clear(self, offset: int) -> bool:
        return offset >= self.end or offset in self._cleared or offset in self.condemned

    def recorded(self, low: int, *, closing: bool = False) -> Crashes:
        """What is to be on record now.

        Progress, a clean end and the end of the crash loop forget the deaths, and who was only
        suspected; not what is condemned. A clean end in the middle of the loop hands it on.

        Args:
            low: the lowest unfinished offset.
            closing: the owner is about to give the queue back.
        """
        if self.on:
            left = tuple(suspect for suspect in self._crashes.suspects if suspect[0] >= low)
            return replace(self._crashes, suspects=left, trying=self.trying)
        progress = self._survived or low > self._start
        deaths = 0 if closing or progress else self._crashes.deaths
        return Crashes(deaths, tuple(sorted(self.condemned.items())), self.trying)


# --- what a new owner concludes from the records of those before it -------------------------------
# A living owner writes nothing for this while all is well. That it ended shows in the mark of a
# clean end that is missing.


@dataclass(slots=True)
class _FormerOwner:
    """One owner: what it was handling in the end, as far as it put that on record."""

    owner: str
    token: int
    trying: int | None = None


def unclean_ends(
    newest: Entry | None, later: Iterable[Record | None], heir: str
) -> tuple[int | None, ...]:
    """Return one item for each owner that ended without closing: the offset it was handling.

    None is an owner that was handling no suspect. A member has a new id at each start, so it ended
    once at most, in its last ownership, and the heir not at all: it lost the queue and lives. What
    a stale owner writes after a newer one was confirmed does not count.

    Args:
        newest: the newest entry that counts, if there is one.
        later: the records stored behind it, in order; None is a damaged one.
        heir: client id of the new owner.
    """
    ownerships: list[_FormerOwner] = []
    if newest is not None and not newest.closed:
        ownerships.append(_FormerOwner(newest.owner, newest.token, newest.trying))
    for record in later:
        latest = ownerships[-1].token if ownerships else -1
        match record:
            case Confirm(owner, token) if token > latest:
                ownerships.append(_FormerOwner(owner, token))
            case Trying(token=token, offset=offset) if token == latest:
                ownerships[-1].trying = offset
    last = {
        ownership.owner: ownership.trying for ownership in ownerships if ownership.owner != heir
    }
    return tuple(last.values())


def conclude(
    newest: Entry | None, ends: tuple[int | None, ...], low: int, finished: Runs
) -> Crashes:
    """Return what the new owner puts on record.

    Progress ends the count, but not a crash loop: there messages are finished one by one until
    the one is found that ends the process. Not for an offset that somebody else set: a reset
    begins with `NO_CRASHES`.

    Args:
        newest: the newest entry that counts, if there is one.
        ends: what `unclean_ends` found.
        low: where the new owner goes on.
        finished: what is finished above that; no such message is to blame.
    """
    before = NO_CRASHES if newest is None else Crashes(newest.deaths, newest.suspects)
    moved = newest is not None and low > newest.low
    deaths = before.deaths + len(ends)
    if moved and not before.looped:
        deaths = min(len(ends), 1)  # only the last owner certainly ended after the progress
    blamed = Counter(dict(before.suspects))
    blamed.update(offset for offset in ends if offset is not None)
    left = [
        (offset, times)
        for offset, times in sorted(blamed.items())
        if offset >= low and not contains(finished, offset)
    ]
    return Crashes(deaths, tuple(left[:MOST_SUSPECTS]))
