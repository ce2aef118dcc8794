"""Why a queue is not moving: one answer per queue, from its state alone."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum

from orderly.model import MessageQueue
from orderly.ordering.lane import Lane
from orderly.ordering.owned_queue import NOT_OURS, OwnedQueue


class Why(StrEnum):
    """What a queue is waiting for, or what it is doing."""

    NOT_OWNED = "not owned: the allocation gives it to another member"
    NOT_LOCKED = (
        "not locked: this member's by allocation, but another client holds the broker's lock"
    )
    NOT_TAKEN = "not taken: this member's by allocation; it takes it soon, or tries again"
    WITHDRAWN = (
        "given up: this member's threads or event loop do not run; it takes queues when they do"
    )
    LOCK_LOST = "lock lost: another client can have it; this member asks for it again"
    LEAVING = "being given up: a handler still runs; the lock is kept until it ends"
    RELEASING = "being given up: next its offset is saved and its lock returned"
    EXPIRING = "its first message has waited so long that the broker will delete it"
    PAUSED = "paused by the program"
    KEYS_PAUSED = "its unfinished messages are of keys that the program paused"
    RATE_LIMITED = "the rate limit is reached (max_rate, max_rate_per_key)"
    HANDLING = "a handler is running"
    HUNG = "a handler hangs: it has been running for longer than handler_timeout"
    SUSPENDED = "suspended: it waits for its next try"
    NO_KEY = "the key function fails: the key of the next message is not known"
    TOO_LARGE = "the next message is larger than max_frame: set ClientConfig.max_frame higher"
    SPAN_END = "nothing more is pulled until unfinished messages are done"
    UNCOMMITTED = "flow-controlled: the cache is full of uncommitted messages; only a COMMIT helps"
    WAITING = "messages wait for a worker thread, or for the event loop"
    FLOW_CONTROLLED = "flow-controlled: enough is cached; consuming reopens it"
    PULL_FAILS = "its messages cannot be pulled: it is tried again"
    PULLING = "pulling"
    EMPTY = "empty: everything the broker has is consumed"
    NOT_PULLING = "no pull is under way: it will begin soon"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one queue is doing or waiting for.

    Attributes:
        queue: which one.
        why: the reason.
        seconds: HANDLING, HUNG and LEAVING: how long the (oldest) handler has been running;
            SUSPENDED and RATE_LIMITED: how much longer it waits; EXPIRING: how long the broker
            still keeps the message; PULL_FAILS: for how long no pull has succeeded; otherwise None.
        offset: the lowest offset not finished here; None if the queue is not held.
        cached: messages held here, pending and in hand.
        flow_controlled: True if pulling waits because enough is cached.
        key: of the lowest unfinished message: with order by key what it is ordered by, else its
            sharding key. None: it has none, or nothing is unfinished.
        attempt: of that message, 1 for the first; None: nothing is unfinished.
        keys: how many keys have unfinished messages here (order by queue: 1 at most).
        keys_suspended: how many of them wait after a failure.
        span: offsets from the lowest unfinished one to where the queue is pulled.
        at_span_end: True if a limit keeps it from being pulled further, in any state of the queue.
        full_of_waiting: True if one does, and most of those keys are suspended or paused.
        key_error: type and text of the key function's error for the next message, if it fails.
        keys_parked: keys that wait in the park topic until somebody releases them.
        too_large: why the next message cannot be pulled: its reply is larger than max_frame.
        keys_paused: how many keys with unfinished messages here the program has paused.
        expires_in: seconds after which the broker can delete the lowest unfinished message; None:
            less than half of its retention is over.
        error: NOT_TAKEN: what failed at the last attempt to take the queue; None: it was not tried.
        pull_error: why the last pull failed; None: it did not.
        unproven: for how many seconds no pull has shown that the queue can be pulled, at most a
            long poll (20 s) if all is well; inf: never yet. None: no pull is expected, for the
            queue is paused, full or given up.
        limit: which limit keeps it from being pulled further, as a clause; None: none does.
        last_try: of its lowest unfinished message, how the last try ended that did not finish it:
            the class and place of what was raised, or the answer. Nothing of the message is in it.
        because: why that message is not given up, or not parked, yet; None: nobody judges it.
        repeats_skipped: repeated sends that were left out here since the queue was taken.
    """

    queue: MessageQueue
    why: Why
    seconds: float | None = None
    offset: int | None = None
    cached: int = 0
    flow_controlled: bool = False
    key: Hashable = None
    attempt: int | None = None
    keys: int = 0
    keys_suspended: int = 0
    span: int = 0
    at_span_end: bool = False
    full_of_waiting: bool = False
    key_error: str | None = None
    keys_parked: int = 0
    too_large: str | None = None
    expires_in: float | None = None
    keys_paused: int = 0
    error: str | None = None
    pull_error: str | None = None
    unproven: float | None = None
    limit: str | None = None
    last_try: str | None = None
    because: str | None = None
    repeats_skipped: int = 0

    def __str__(self) -> str:
        """For people: queue, reason and for how long."""
        span = "" if self.seconds is None else f" ({self.seconds:.1f} s)"
        full = ", pulling is flow-controlled" if self.flow_controlled and not self.limit else ""
        parked = f", {self.keys_parked} keys parked" if self.keys_parked else ""
        paused = f", {self.keys_paused} keys paused" if self.keys_paused else ""
        left = f", {self.repeats_skipped} repeated sends left out" if self.repeats_skipped else ""
        large = "" if self.too_large is None else f", {self.too_large}"
        failed = "" if self.error is None else f": {self.error}"
        pull = "" if self.pull_error is None else f", the last pull failed: {self.pull_error}"
        more = f"{span}{full}{self._ends}{parked}{paused}{left}{self._expires}{self._no_key}{large}"
        tried = tried_text(self.last_try, self.because)
        return f"{self.queue}: {self.why}{more}{failed}{pull}{tried}"

    @property
    def _ends(self) -> str:
        if self.limit is None:
            return ""
        return (
            f": {self.limit}" if self.why is Why.SPAN_END else f", nothing is pulled: {self.limit}"
        )

    @property
    def _expires(self) -> str:
        if self.expires_in is None or self.why is Why.EXPIRING:
            return ""
        return f", its first message will be deleted ({self.expires_in:.0f} s)"

    @property
    def _no_key(self) -> str:
        if self.key_error is None or self.offset is None:
            return ""
        return f", the key function failed at offset {self.offset + self.span}: {self.key_error}"


def tried_text(last_try: str | None, because: str | None) -> str:
    """How the last try ended, and why no policy applies yet, as the end of a sentence."""
    tried = "" if last_try is None else f", last try: {last_try}"
    return tried + ("" if because is None else f", not given up yet: {because}")


def explain(owned: OwnedQueue, now: float) -> Explanation:
    """Say why a held queue is where it is at `now` (seconds). The caller guards `owned`."""
    why, seconds = _reason(owned, now)
    unproven_since = owned.unproven_since
    lane, limit = owned.messages.lowest_lane, owned.limit_reached
    return Explanation(
        owned.queue,
        why,
        seconds,
        owned.offset,
        owned.messages.count,
        owned.throttled,
        None if lane is None else key_of(owned, lane),
        None if lane is None else lane.attempts + 1,
        keys=len(owned.messages),
        keys_suspended=owned.messages.suspended,
        span=owned.span,
        at_span_end=limit is not None,
        full_of_waiting=owned.full_of_waiting,
        key_error=owned.no_key,
        keys_parked=len(owned.parking),
        repeats_skipped=owned.repeats.skipped,
        too_large=owned.too_large,
        expires_in=owned.expires_in(now),
        keys_paused=owned.messages.paused,
        pull_error=owned.pull_error,
        unproven=None if unproven_since is None else now - unproven_since,
        limit=None if limit is None else str(limit),
    )


def key_of(owned: OwnedQueue, lane: Lane) -> Hashable:
    """The key of a lane's first message: what it is ordered by; by queue its sharding key."""
    if owned.by_key:
        return lane.key
    head = lane.messages.head
    return None if head is None else head.sharding_key


def _reason(owned: OwnedQueue, now: float) -> tuple[Why, float | None]:
    running = None if owned.handling_since is None else now - owned.handling_since
    if owned.dropped in NOT_OURS or not owned.lease.valid(now):
        return Why.LOCK_LOST, running
    if owned.dropped is not None:
        return (Why.RELEASING if running is None else Why.LEAVING), running
    if running is not None:
        return Why.HANDLING, running
    expires = owned.expires_in(now)
    if expires is not None:
        return Why.EXPIRING, expires
    if owned.paused:
        return Why.PAUSED, None
    return _waiting(owned, now)


def _waiting(owned: OwnedQueue, now: float) -> tuple[Why, float | None]:
    """Why nothing is in work."""
    if owned.no_key is not None:
        return Why.NO_KEY, None
    if owned.too_large is not None and not owned.messages.count:
        return Why.TOO_LARGE, None
    if owned.limit_reached is not None:
        return Why.SPAN_END, None
    return _held_back(owned, now) or _supply(owned, now)


def _held_back(owned: OwnedQueue, now: float) -> tuple[Why, float | None] | None:
    """What messages wait for that are here; None: for nothing but a worker, or there are none."""
    held = owned.messages
    if held.ready and owned.held_until is not None:
        return Why.RATE_LIMITED, max(0.0, owned.held_until - now)
    if held.wake_at is not None and not held.ready:
        why = Why.RATE_LIMITED if held.next_is_paced else Why.SUSPENDED
        return why, max(0.0, held.wake_at - now)
    if held.paused and not held.ready and held.paused == len(held):
        return Why.KEYS_PAUSED, None
    return None


def _supply(owned: OwnedQueue, now: float) -> tuple[Why, float | None]:
    """Whether messages are there, under way, or cannot come."""
    if owned.stuck_full:
        return Why.UNCOMMITTED, None
    if owned.messages.pending:
        return Why.WAITING, None
    if owned.throttled:
        return Why.FLOW_CONTROLLED, None
    if owned.failing_since is not None:
        return Why.PULL_FAILS, now - owned.failing_since
    if not owned.pulling:
        return Why.NOT_PULLING, None
    return (Why.EMPTY if owned.at_end else Why.PULLING), None
