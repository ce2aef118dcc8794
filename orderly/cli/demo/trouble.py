"""The trouble the demo makes on purpose, and what becomes of each, live and in the final table.

A message that fails a few times, a consumer that leaves half-way, and a bad record: its time is
24:00, midnight at the end of a day, which strptime refuses.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from orderly.cli.demo.flights import FlightEvent
from orderly.model import MessageQueue
from orderly.monitoring.park_command_sender import Outcome
from orderly.ordering.results import Ack, Suspend

FAILURES = ("raise", "suspend", "raise")
_FORMAT = "%Y-%m-%dT%H:%M"
_MIDNIGHT = "T24:00"
ReadTime = Callable[[str], datetime]
"""The part of the handler's code that has the defect."""


class EngineTroubleError(Exception):
    """Raised on purpose by the demo's handler."""


def pick_failing(events: Sequence[FlightEvent], seed: int) -> int:
    """The number of the event that will fail: early, of an aircraft with more events to come."""
    early = range(len(events) // 20, max(1, len(events) // 4))
    candidates = list(early) or [0]
    busy = Counter(event.tail for event in events)
    choice = [number for number in candidates if busy[events[number].tail] > 2] or candidates
    return choice[random.Random(seed).randrange(len(choice))]  # noqa: S311  no secret


@dataclass(slots=True)
class FailingEvent:
    """Fails as `FAILURES` says, then succeeds. Handled by one thread at a time."""

    number: int
    key: str
    name: str
    queue: MessageQueue | None = None
    attempts: list[float] = field(default_factory=list)
    others_before: int = 0
    others_after: int = 0

    @property
    def waiting(self) -> bool:
        """It failed and has not succeeded yet."""
        return 0 < len(self.attempts) <= len(FAILURES)

    def handle(self, queue: MessageQueue, now: float, others: int) -> Ack | Suspend:
        """Fail or succeed; `others` is how many events were handled so far, not one of its key's.

        Raises:
            EngineTroubleError: one of the planned failures.
        """
        self.queue = queue
        self.attempts.append(now)
        if len(self.attempts) == 1:
            self.others_before = others
        if len(self.attempts) > len(FAILURES):
            self.others_after = others
            return Ack()
        if FAILURES[len(self.attempts) - 1] == "raise":
            raise EngineTroubleError(f"attempt {len(self.attempts)} of {self.name}")
        return Suspend()

    def last_attempt(self) -> str:
        """What just happened, in one line."""
        count = len(self.attempts)
        if count > len(FAILURES):
            return f"attempt {count}: success; {self.key} goes on"
        did = "raised" if FAILURES[count - 1] == "raise" else "suspended"
        what = f"{self.name}: the handler {did}" if count == 1 else f"the handler {did}"
        return f"attempt {count}, {what}; {self.key} waits"

    def story(self) -> str:
        """The whole of it, for the table."""
        if not self.attempts:
            return f"{self.name}: never delivered"
        if len(self.attempts) <= len(FAILURES):
            return f"{self.name}: failed {len(self.attempts)} times and was not seen again"
        waited = self.attempts[len(FAILURES)] - self.attempts[0]
        return (
            f"{self.name} in queue {self._queue_id}: failed {len(FAILURES)} times, done at attempt"
            f" {len(FAILURES) + 1} after {waited:.1f} s; meanwhile"
            f" {self.others_after - self.others_before:,} events of other aircraft were handled"
        )

    @property
    def _queue_id(self) -> int | str:
        return self.queue.queue_id if self.queue else "?"


@dataclass(slots=True)
class TakeOver:
    """One consumer closes; the other one's first message from each of its queues ends it."""

    started: float
    queues: frozenset[MessageQueue]
    first: dict[MessageQueue, float] = field(default_factory=dict)
    shown: bool = False

    def delivered(self, queue: MessageQueue, now: float) -> None:
        """The survivor was handed a message of `queue`."""
        if queue in self.queues:
            self.first.setdefault(queue, now)

    def over(self, drained: Collection[MessageQueue]) -> bool:
        """Every queue goes on at the survivor, or had nothing left."""
        return all(queue in self.first or queue in drained for queue in self.queues)

    @property
    def seconds(self) -> float | None:
        """From the call of close to the last queue's first message; None: no queue had any left."""
        return max(self.first.values()) - self.started if self.first else None

    def story(self) -> str:
        """One line."""
        if self.seconds is None:
            return f"consumer B left; its {len(self.queues)} queues had nothing left to take over"
        return (
            f"consumer A took over {len(self.queues)} queues from B in {self.seconds:.2f} s"
            " (close to first message)"
        )


# --- the bad record ------------------------------------------------------------------------------


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


def read_time_fixed(text: str) -> datetime:
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
