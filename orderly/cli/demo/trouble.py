"""The trouble the demo makes on purpose: a message that fails, a consumer that leaves.

Both keep their own story with times, to be told live and in the final table.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from orderly.cli.demo.flights import FlightEvent
from orderly.model import MessageQueue
from orderly.ordering.outcomes import Ack, Suspend

FAILURES = ("raise", "suspend", "raise")


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
class FailingMessage:
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
    told: bool = False

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
