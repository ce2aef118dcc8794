"""A circuit as a value: closed, open, or half-open while one message probes.

Open, everything behind it waits; after a growing wait one message may try. If it fails the wait
grows, if it succeeds the circuit is closed. Time is an argument (seconds).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import final

from orderly.ordering.backoff import doubled


class CircuitState(Enum):
    """Whether messages may pass."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@final
@dataclass(frozen=True, slots=True)
class Circuit:
    """Immutable: each step returns the next circuit.

    Attributes:
        state: whether messages may pass.
        since: when it was opened, or closed again.
        failed_probes: since it was opened.
        due: open: from when on a message may probe; half-open: from when on the probe counts as
            lost and another one may.
        probe: the key that probes, or probed, last.
        probes: keys whose message was let through as a probe and is not heard of yet. Several, if
            they take longer than a probe may before it counts as lost.
    """

    state: CircuitState
    since: float
    failed_probes: int = 0
    due: float = 0.0
    probe: Hashable | None = None
    probes: frozenset[Hashable] = frozenset()

    @property
    def closed(self) -> bool:
        """Whether everything passes."""
        return self.state is CircuitState.CLOSED

    def opened(self, now: float, first_wait: float) -> Circuit:
        """Open it; nothing changes if it is not closed."""
        if not self.closed:
            return self
        return Circuit(CircuitState.OPEN, now, due=now + first_wait)

    def waits(self, now: float) -> float:
        """Return for how many seconds nothing may pass; 0.0: the next one to ask probes."""
        return 0.0 if self.closed else max(0.0, self.due - now)

    def probing(self, key: Hashable, now: float, lost_after: float) -> Circuit:
        """`key`'s message probes now."""
        probes = self.probes | {key}
        due = now + lost_after
        return replace(self, state=CircuitState.HALF_OPEN, due=due, probe=key, probes=probes)

    def failed(self, key: Hashable, now: float, first_wait: float, longest_wait: float) -> Circuit:
        """A message failed. Only a probe's failure means anything: the next wait is longer."""
        if key not in self.probes:
            return self
        wait = doubled(self.failed_probes + 2, first_wait, longest_wait)
        failed_probes, probes = self.failed_probes + 1, self.probes - {key}
        return Circuit(CircuitState.OPEN, self.since, failed_probes, now + wait, key, probes)

    def given_back(self, key: Hashable, now: float) -> Circuit:
        """A probe came to nothing: the next one to ask probes in its place."""
        if key not in self.probes:
            return self
        rest = replace(self, probes=self.probes - {key})
        half = self.state is CircuitState.HALF_OPEN
        return replace(rest, state=CircuitState.OPEN, due=now) if half else rest

    def succeeded(self, key: Hashable, now: float) -> Circuit:
        """A message succeeded: a probe closes it, a straggler from before it opened does not."""
        if key not in self.probes:
            return self
        return CLOSED if now < self.since else replace(CLOSED, since=now)


CLOSED = Circuit(CircuitState.CLOSED, since=float("-inf"))
"""A circuit that never was open."""
