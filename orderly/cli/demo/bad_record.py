"""The demo's bad record: which event it is, the code that cannot read it, and the mended one.

A record with the time 24:00 is a classic: midnight at the end of a day, which strptime refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from orderly.cli.demo.flights import FlightEvent
from orderly.monitoring.parking.commands import Outcome

ReadTime = Callable[[str], datetime]
"""The part of the handler's code that has the defect."""

_FORMAT = "%Y-%m-%dT%H:%M"
_MIDNIGHT = "T24:00"


@dataclass(frozen=True, slots=True)
class BadRecord:
    """The event whose time is spoiled: its number, its aircraft, and the text sent as its time."""

    number: int
    key: str
    name: str
    time: str


def pick_bad(events: Sequence[FlightEvent], first: int) -> BadRecord:
    """Choose, among the events from number `first` on, one that many of its aircraft follow.

    It comes early, for what is shown is how the later ones wait behind it.
    """
    live = events[first:]
    early = {event.tail for event in live[: max(1, len(live) // 10)]}
    follow = Counter(event.tail for event in live if event.tail in early)
    key = max(follow, key=lambda tail: (follow[tail], tail))
    number = next(n for n, event in enumerate(live, first) if event.tail == key)
    event = events[number]
    return BadRecord(number, key, f"{key}'s {event.kind}", event.time[:10] + _MIDNIGHT)


def read_time(text: str) -> datetime:
    """As the demo's consumers A and B do it.

    Raises:
        ValueError: not a time, or 24:00.
    """
    return datetime.strptime(text, _FORMAT)  # noqa: DTZ007  local clocks, without a zone


def read_time_mended(text: str) -> datetime:
    """As consumer C does it: 24:00 is 00:00 of the next day."""
    if text.endswith(_MIDNIGHT):
        return read_time(text.replace(_MIDNIGHT, "T00:00")) + timedelta(days=1)
    return read_time(text)


@dataclass(slots=True)
class Parking:
    """What became of the bad record's aircraft. Times are seconds on the monotonic clock.

    Attributes:
        bad: the record.
        parked_at: when its key was seen parked; None: never.
        released_at: when its release had ended; None: never.
        outcomes: of the release.
    """

    bad: BadRecord
    parked_at: float | None = None
    released_at: float | None = None
    outcomes: tuple[Outcome, ...] = ()

    @property
    def settled(self) -> int:
        """How many messages its queue's owner says it replayed."""
        return sum(outcome.settled for outcome in self.outcomes)

    @property
    def ok(self) -> bool:
        """Parked, and released to the end."""
        return self.settled > 0 and all(outcome.reason is None for outcome in self.outcomes)

    @property
    def seconds(self) -> float | None:
        """From parking to the end of the release; None: one of them did not happen."""
        if self.parked_at is None or self.released_at is None:
            return None
        return self.released_at - self.parked_at

    def story(self, *, replayed: int, meanwhile: int) -> str:
        """One line for the table.

        Args:
            replayed: parked messages that a handler acknowledged when they were released.
            meanwhile: other aircraft's events that were handled between parking and release.
        """
        if self.parked_at is None:
            return f"{self.bad.key} was never parked"
        if self.seconds is None:
            return f"{self.bad.key} was parked and not released"
        text = f"{self.bad.key}: {self.settled:,} events set aside, for up to {self.seconds:.1f} s"
        reasons = "; ".join(outcome.reason for outcome in self.outcomes if outcome.reason)
        if reasons:
            return f"{text}; the release stopped: {reasons}"
        return (
            f"{text}; {replayed:,} replayed; meanwhile {meanwhile:,} events of other aircraft were"
            " handled"
        )
