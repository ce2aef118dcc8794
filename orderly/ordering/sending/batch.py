"""The values an outbox speaks of: entries, batches, what became of an attempt, and its limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar


@dataclass(slots=True, eq=False)
class Entry:
    """A message in the outbox; the producer's subclass carries the message itself.

    Attributes:
        lane: messages of one lane keep their order; None: this one has no order to keep.
        size: bytes it adds to a batch.
        sys_flag: a batch has one for all its messages (compressed or not), so it does not mix.
        deadline: no attempt begins later than this (seconds, the clock of `now`).
        urgent: somebody waits for it, so it waits for no others to share its batch.
        alone: set here on the members of a batch that the broker refused.
    """

    lane: str | None
    size: int
    sys_flag: int
    deadline: float
    urgent: bool = False
    alone: bool = False


E = TypeVar("E", bound=Entry)


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Generic[E]):
    """Messages that travel in one request. `attempt` counts from 1."""

    entries: Sequence[E]
    attempt: int = 1

    @property
    def deadline(self) -> float:
        """That of the most patient member: one impatient message must not fail the others."""
        if len(self.entries) == 1:
            return self.entries[0].deadline
        return max(entry.deadline for entry in self.entries)


class Verdict(Enum):
    """What a failed attempt means for the batch.

    NOT_STORED: the broker did not execute it (flow control, no connection): retry.
    UNKNOWN: it may be stored or still on its way (time-out, lost connection): retry when the
        broker would have dropped it from its queue.
    BAD_MESSAGE: one of the messages is refused: send each of the batch alone, in order; a message
        that is alone already fails.
    REFUSED: no message of this queue would be accepted (no permission, no topic): all fail.
    """

    NOT_STORED = "not stored"
    UNKNOWN = "unknown"
    BAD_MESSAGE = "bad message"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class OutboxRules:
    """Limits and times of an outbox; fields as in ProducerConfig.

    `longest_backoff` bounds the time between attempts, which doubles. `settle` is how long the
    broker may keep an unanswered send in its queue before it drops it (Java:
    BrokerConfig.waitTimeMillsInSendQueue, 200 ms).
    """

    retries: int = 2
    retry_backoff: float = 0.3
    longest_backoff: float = math.inf
    hold_failed_key: float = 60.0
    batch_messages: int = 64
    batch_bytes: int = 256 * 1024
    settle: float = 0.2
    linger: float = 0.0
