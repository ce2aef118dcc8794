"""Which keys of a queue hold things up, with order by key: one answer per key, from its lane."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from orderly.model import MessageQueue
from orderly.ordering.explain import tried_text
from orderly.ordering.lane import Lane
from orderly.ordering.owned_queue import OwnedQueue
from orderly.protocol.parked_key import ParkedKey


class KeyWhy(StrEnum):
    """What a key is waiting for, or what it is doing."""

    HANDLING = "a handler is running"
    HUNG = "a handler hangs: it has been running for longer than handler_timeout"
    SUSPENDED = "waits for its next try"
    PAUSED = "paused by the program"
    RATE_LIMITED = "waits until max_rate_per_key allows the next message"
    FETCHING = "its next messages are pulled again: it was too far behind to keep their bodies"
    PARKED = "parked: its messages wait in the park topic until somebody releases it"
    UNCOMMITTED = "all its messages are uncommitted: only a COMMIT helps"
    WAITING = "waits for its turn"


_IDLE = frozenset({KeyWhy.FETCHING, KeyWhy.WAITING})


@dataclass(frozen=True, slots=True)
class KeyExplanation:
    """What one key is doing or waiting for.

    Attributes:
        queue: which queue its messages are in.
        key: which key; None: messages without one.
        why: the reason.
        seconds: HANDLING and HUNG: for how long; SUSPENDED and
            RATE_LIMITED: for how much longer; otherwise None.
        offset: of its lowest unfinished message; without one, of the first that is parked.
        attempt: of that message, 1 for the first; None if it is parked.
        unfinished: its messages that were pulled and are not finished.
        parked: about how many of its messages are parked; they are finished here.
        because: SUSPENDED: why a message that fails is not given up, or not parked, yet; None: it
            does not fail, or nobody judges it.
        last_try: SUSPENDED: how its last try ended: the class and place of what was raised, or the
            answer. Nothing of the message is in it.
    """

    queue: MessageQueue
    key: Hashable
    why: KeyWhy
    seconds: float | None
    offset: int
    attempt: int | None
    unfinished: int
    parked: int = 0
    because: str | None = None
    last_try: str | None = None

    def __str__(self) -> str:
        """For people: queue, key, reason and for how long."""
        span = "" if self.seconds is None else f" ({self.seconds:.1f} s)"
        tried = tried_text(self.last_try, self.because)
        return f"{self.queue}, key {self.key!r} at {self.offset}: {self.why}{span}{tried}"


def explain_keys(owned: OwnedQueue, now: float) -> list[KeyExplanation]:
    """One explanation for each key with something unfinished or parked. The caller guards `owned`.

    Args:
        owned: the queue.
        now: seconds.
    """
    lanes = [lane for lane in owned.messages.lanes if lane.low is not None]
    at_rest: dict[Hashable, ParkedKey] = {parked.key: parked for parked in owned.parking.snapshot()}
    found = [_explain(owned.queue, lane, at_rest.pop(lane.key, None), now) for lane in lanes]
    return found + [_parked(owned.queue, parked) for parked in at_rest.values()]


def _explain(
    queue: MessageQueue, lane: Lane, parked: ParkedKey | None, now: float
) -> KeyExplanation:
    why, seconds = _reason(lane, now)
    if parked is not None and why in _IDLE:
        why = KeyWhy.PARKED
    assert lane.low is not None, "a lane without anything unfinished is not explained"
    attempt = lane.attempts + 1
    unfinished = lane.messages.count + len(lane.later)
    many = 0 if parked is None else parked.messages
    return KeyExplanation(queue, lane.key, why, seconds, lane.low, attempt, unfinished, many)


def _parked(queue: MessageQueue, parked: ParkedKey) -> KeyExplanation:
    why, many = KeyWhy.PARKED, parked.messages
    return KeyExplanation(queue, parked.key, why, None, parked.next, None, 0, many)


def why_no_turn(owned: OwnedQueue, key: Hashable, now: float, *, errand: bool) -> str:
    """Say what a lane task waits for, in a clause. The caller guards `owned`.

    Args:
        owned: the queue.
        key: whose lane it is.
        now: seconds.
        errand: it calls no handler.
    """
    lane = owned.messages.lane_of(key)
    if lane is not None and lane.since is not None:
        if owned.messages.on_errand(lane):
            return "another command about the key is carried out"
        return f"a handler call with the key is running ({now - lane.since:.0f} s)"
    if errand:
        fetching = lane is not None and lane.needs_refill
        other = "a command about another key of the queue is asking the broker"
        return "the bodies of its messages are pulled from the broker again" if fetching else other
    if owned.paused:
        return "the program has paused the queue, so the handler may not be called"
    if lane is not None and lane.paused:
        return "the program has paused the key, so the handler may not be called"
    return f"no worker is free ({owned.messages.running} handler calls of this queue are running)"


def _reason(lane: Lane, now: float) -> tuple[KeyWhy, float | None]:
    if lane.since is not None:
        return KeyWhy.HANDLING, now - lane.since
    if lane.paused:
        return KeyWhy.PAUSED, None
    if lane.wake_at is not None:
        why = KeyWhy.RATE_LIMITED if lane.paced else KeyWhy.SUSPENDED
        return why, max(0.0, lane.wake_at - now)
    if lane.needs_refill:
        return KeyWhy.FETCHING, None
    return (KeyWhy.WAITING if lane.messages.pending else KeyWhy.UNCOMMITTED), None
