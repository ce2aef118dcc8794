"""Which keys of a queue hold things up, with order by key: one answer per key, from its lane."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from orderly.model import MessageQueue
from orderly.ordering.lane import Lane
from orderly.ordering.owned_queue import OwnedQueue


class KeyWhy(StrEnum):
    """What a key is waiting for, or what it is doing."""

    HANDLING = "a handler is running"
    SUSPENDED = "waits after a failure"
    FETCHING = "its next messages are pulled again: it was too far behind to keep them"
    UNCOMMITTED = "all its messages are in hand: only a COMMIT helps"
    WAITING = "waits for its turn"


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """Why one key is where it is.

    Attributes:
        queue: which queue its messages are in.
        key: which key; None: messages without one.
        why: the reason.
        seconds: HANDLING: for how long; SUSPENDED: for how much longer; otherwise None.
        offset: of its lowest unfinished message.
        attempt: of that message, 1 for the first; None if its body is not here.
        unfinished: its messages that were pulled and are not finished.
    """

    queue: MessageQueue
    key: Hashable
    why: KeyWhy
    seconds: float | None
    offset: int
    attempt: int | None
    unfinished: int

    def __str__(self) -> str:
        """For people: queue, key, reason and for how long."""
        span = "" if self.seconds is None else f" ({self.seconds:.1f} s)"
        return f"{self.queue}, key {self.key!r} at {self.offset}: {self.why}{span}"


def explain_keys(owned: OwnedQueue, now: float) -> list[KeyExplanation]:
    """One explanation for each key with something unfinished. The caller guards `owned`.

    Args:
        owned: the queue.
        now: seconds.
    """
    return [
        _explain(owned.queue, lane, now) for lane in owned.messages.lanes if lane.low is not None
    ]


def _explain(queue: MessageQueue, lane: Lane, now: float) -> KeyExplanation:
    why, seconds = _reason(lane, now)
    head = lane.messages.head
    assert lane.low is not None, "a lane without anything unfinished is not explained"
    attempt = None if head is None else head.reconsume_times + 1
    unfinished = lane.messages.count + len(lane.later)
    return KeyExplanation(queue, lane.key, why, seconds, lane.low, attempt, unfinished)


def _reason(lane: Lane, now: float) -> tuple[KeyWhy, float | None]:
    if lane.since is not None:
        return KeyWhy.HANDLING, now - lane.since
    if lane.wake_at is not None:
        return KeyWhy.SUSPENDED, max(0.0, lane.wake_at - now)
    if lane.hungry:
        return KeyWhy.FETCHING, None
    return (KeyWhy.WAITING if lane.messages.pending else KeyWhy.UNCOMMITTED), None
