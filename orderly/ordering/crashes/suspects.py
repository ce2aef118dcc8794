"""The messages of one queue that may have ended its former owners, while one owner holds it.

Suspect is what was stored when the queue was taken in a crash loop and is not finished. Each
message is cleared when a call of the handler with it has come back, whatever it answered; once no
lane can go on with anything else, whatever ended the processes is not there any more.

By the same rule an owner that follows one death tells whether it has got further: its own end is
then the first again. So it has if the committed offset moved, or if its handler came back once from
all there was; not if other keys were finished, for so they are beside a message that kills.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from orderly.ordering.crashes.crashes import MOST_SUSPECTS, NO_CRASHES, Crashes


class Suspects:
    """Not thread-safe: the lock of its queue is around every call that changes something.

    Args:
        crashes: what the take-over concluded.
        start: the lowest unfinished offset, then.
        end: the offset after the newest message, then; it counts after a death only.

    Attributes:
        on: suspects are left: one message of the queue is run at a time, each after a record.
        over: `on` has ended and nobody was told yet.
        condemned: offsets that no handler shall see, with their deaths.
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
        self._survived = crashes.looped  # what the loop was about is told by `on`
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
