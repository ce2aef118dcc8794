"""What waits to be sent to one queue, and the rules that keep each key's order there.

The broker reorders sends of one connection that overlap, so one batch at a time is in flight and
everything else waits behind it. A batch that fails is retried as it is, to the same queue; when
it fails for good, the later messages of its keys fail too instead of overtaking it.

No clock and no I/O: the producer passes `now` (seconds) and does the sending.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from orderly.errors import OrderlyError, PrecedingSendFailed, SendFailed
from orderly.model import MessageQueue

# --- the values an outbox speaks of ---------------------------------------------------------------


@dataclass(slots=True, eq=False)
class OutboxEntry:
    """A message in the outbox; the producer's subclass carries the message itself.

    Attributes:
        lane: messages of one lane keep their order; None: this one has no order to keep.
        size: bytes it adds to a batch.
        sys_flag: a batch has one for all its messages (compressed or not), so it does not mix.
        deadline: no attempt begins later than this (seconds, the clock of `now`).
        urgent: somebody waits for it, so it waits for no others to share its batch.
        alone: set here on the members of a batch that the broker refused.
        unknown: set here if an attempt may have stored it, to its error: it may be stored, whatever
            later attempts say.
        copies: counted here: how many attempts may have stored it. After the first all are marked.
        born: set here when it first goes out, in milliseconds since the epoch, and kept for all
            attempts. A batch has one, that of its first member.
    """

    lane: str | None
    size: int
    sys_flag: int
    deadline: float
    urgent: bool = False
    alone: bool = False
    unknown: OrderlyError | None = None
    copies: int = 0
    born: int = 0


E = TypeVar("E", bound=OutboxEntry)


@dataclass(frozen=True, slots=True, eq=False)
class OutboxBatch(Generic[E]):
    """Messages that travel in one request. `attempt` counts from 1."""

    entries: Sequence[E]
    attempt: int = 1

    @property
    def deadline(self) -> float:
        """That of the most patient member: one impatient message must not fail the others."""
        if len(self.entries) == 1:
            return self.entries[0].deadline
        return max(entry.deadline for entry in self.entries)

    def born(self, now: float) -> int:
        """The born time of its messages; `now` (seconds since the epoch) if it never went out."""
        first = self.entries[0]
        first.born = first.born or int(now * 1000)
        return first.born


class SendVerdict(Enum):
    """What a failed attempt means for the batch.

    NOT_STORED: the broker did not execute it (flow control, no connection): retry.
    UNKNOWN: it may be stored or still on its way (time-out, lost connection): retry when the
        broker would have dropped it from its queue.
    BAD_MESSAGE: one of the messages is refused: send each of the batch alone, in order; a message
        that is alone already fails.
    FAILED_BATCH: a batch failed, and nobody says whether one of its messages spoils it or the
        broker has trouble of its own: as BAD_MESSAGE, but it may be stored, as after UNKNOWN.
    NO_BATCH: no batch is taken for this topic, but its messages may be: from now on each is sent
        alone, those of this batch first.
    REFUSED: no message of this queue would be accepted (no permission, no topic): all fail.
    """

    NOT_STORED = "not stored"
    UNKNOWN = "unknown"
    BAD_MESSAGE = "bad message"
    FAILED_BATCH = "failed batch"
    NO_BATCH = "no batch"
    REFUSED = "refused"

    @property
    def may_be_stored(self) -> bool:
        """Whether this attempt may have stored the messages, or still will."""
        return self in (SendVerdict.UNKNOWN, SendVerdict.FAILED_BATCH)


_ONE_BY_ONE = frozenset({SendVerdict.BAD_MESSAGE, SendVerdict.FAILED_BATCH, SendVerdict.NO_BATCH})


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


# --- the errors of messages that are given up: what happened, and what to do next -----------------


def send_failed(
    entry: OutboxEntry, queue: MessageQueue, cause: Exception, attempts: int
) -> SendFailed:
    """The error of a message given up after `attempts` attempts; 0: it was not sent again.

    It was never sent then, unless an earlier attempt, in a batch, ended without an answer.
    """
    attempts = attempts or int(entry.unknown is not None)
    tried = f"failed at attempt {attempts}" if attempts else "was not sent"
    error = SendFailed(f"{_name(entry)} for {queue} {tried}: {cause}{_what_is_held(entry)}")
    error.__cause__ = cause
    return error


def preceding_failed(
    entry: OutboxEntry, queue: MessageQueue, ahead: SendFailed
) -> PrecedingSendFailed:
    """The error of a message held back because `ahead` happened to an earlier one of its lane."""
    error = PrecedingSendFailed(
        f"{_name(entry)} for {queue} was not sent: an earlier one failed and this one must not"
        " overtake it. Deal with the failed one, then call producer.resume(key)"
    )
    error.__cause__ = ahead
    return error


def _name(entry: OutboxEntry) -> str:
    return f"a message of key {entry.lane!r}" if entry.lane else "a message"


def _what_is_held(entry: OutboxEntry) -> str:
    if entry.lane is None:
        return ""
    who = "of its key" if entry.lane else "of its queue"
    return f". Later messages {who} are refused until producer.resume() or hold_failed_key is over"


# --- the outbox -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hold:
    """A lane that failed, closed to later messages."""

    until: float
    cause: SendFailed


Failed = tuple[E, SendFailed]


class Outbox(Generic[E]):
    """The messages of one queue that are not stored yet. Not thread-safe: the caller locks.

    Every entry leaves exactly once: in a batch for which `stored` returned True, in a list of
    failures, or unclaimed by `take`.

    A program's own thread calls `submit`, `take` and `stored` only. An interruption can cut them
    off between any two steps; their steps are in such an order that `mend` makes the outbox whole.
    """

    def __init__(self, queue: MessageQueue, rules: OutboxRules) -> None:
        self.queue = queue
        self._rules = rules
        self._most = rules.batch_messages  # in one batch
        self._waiting: deque[E] = deque()
        self._in_flight: OutboxBatch[E] | None = None
        self._again: OutboxBatch[E] | None = None
        self._last_cause: OrderlyError | None = None
        self._not_before = -math.inf
        self._ripe_at = -math.inf  # when what waits has waited long enough for more
        self._held: dict[str, _Hold] = {}
        self._earliest = math.inf  # no waiting entry's deadline is earlier

    @property
    def empty(self) -> bool:
        """Whether nothing waits and nothing is in flight."""
        return not (self._waiting or self._in_flight or self._again)

    @property
    def busy(self) -> bool:
        """Whether something is in flight: nothing else is sent before its answer."""
        return self._in_flight is not None

    @property
    def in_flight(self) -> OutboxBatch[E] | None:
        """What `take` gave out last and is not answered yet."""
        return self._in_flight

    def overdue(self, now: float) -> bool:
        """Whether `expire` would look for entries whose deadline passed."""
        return now >= self._earliest

    def submit(self, entry: E, now: float) -> list[Failed[E]]:
        """Add an entry behind all others; fails at once if its lane is held."""
        hold = self._hold_on(entry.lane, now)
        if hold is not None:
            return [(entry, preceding_failed(entry, self.queue, hold.cause))]
        if entry.urgent or self._rules.linger == 0:
            self._ripe_at = -math.inf
        elif not self._waiting:
            self._ripe_at = now + self._rules.linger
        self._earliest = min(self._earliest, entry.deadline)
        self._waiting.append(entry)  # last: from now on it is here
        return []

    def hurry(self) -> None:
        """Let what waits for more go out now."""
        self._ripe_at = -math.inf

    def take(self, now: float, claim: Callable[[E], bool]) -> OutboxBatch[E] | None:
        """Take the batch to send now, if one may be sent. Call `expire` first.

        The caller sends it and then calls `stored` or `refused`; until then nothing else is taken.

        Args:
            now: seconds.
            claim: called for each entry of a new batch (again if that batch is split); False
                drops it (it was cancelled): its successors go on as if it had never been there.
        """
        if self._in_flight is not None or now < self._ready_at():
            return None
        batch, looked_at = (self._again, 0) if self._again else self._compose(claim)
        self._in_flight = batch  # first: what is in flight may wait here, too, until it is mended
        self._again = None
        for _ in range(looked_at):
            self._waiting.popleft()
        if not self._waiting:
            self._earliest = math.inf
        return batch

    def mend(self) -> None:
        """Make the outbox whole after a call that an interruption cut off."""
        if self._in_flight is None:
            return
        if self._again is self._in_flight:
            self._again = None
        sent = set(self._in_flight.entries)
        self._waiting = deque(entry for entry in self._waiting if entry not in sent)
        self._earliest = min((entry.deadline for entry in self._waiting), default=math.inf)

    def put_back(self) -> None:
        """Take what is in flight back: it was not sent, and this was no attempt."""
        if self._in_flight is not None:
            self._again = OutboxBatch(self._in_flight.entries, self._in_flight.attempt)
            self._in_flight = None

    def has(self, entry: E) -> bool:
        """Whether the entry has not left yet."""
        sent = self._in_flight or self._again
        return (sent is not None and entry in sent.entries) or entry in self._waiting

    def stored(self, batch: OutboxBatch[E]) -> bool:
        """Note that the broker acknowledged `batch`. False: it had been given up before."""
        if batch is not self._in_flight:
            return False
        self._in_flight = self._last_cause = None
        return True

    def refused(
        self, batch: OutboxBatch[E], verdict: SendVerdict, cause: OrderlyError, now: float
    ) -> list[Failed[E]]:
        """Note that an attempt failed; plan the retry or give up.

        Returns:
            The entries that failed for good, in order. Empty: there will be another attempt, or
            the batch had been given up before.
        """
        if batch is not self._in_flight:
            return []
        self._in_flight = None
        if verdict.may_be_stored:
            self._not_before = now + self._rules.settle
            for entry in batch.entries:
                entry.unknown = cause
                entry.copies += 1
        if verdict is SendVerdict.NO_BATCH:
            self._most = 1
        if verdict in _ONE_BY_ONE and len(batch.entries) > 1:
            self._split(batch)
            return []
        if verdict in (SendVerdict.NOT_STORED, SendVerdict.UNKNOWN) and self._plan_retry(
            batch, now
        ):
            self._last_cause = cause
            return []
        return self._fail(batch, cause, now)

    def expire(self, now: float) -> list[Failed[E]]:
        """Fail the waiting entries whose deadline passed, and those behind them in their lanes."""
        if now < self._earliest:
            return []
        return self._sweep({}, now)

    def turn_away(self, entry: E, cause: Exception, now: float) -> list[Failed[E]]:
        """Fail an entry that found no room to wait in; holds its lane as any failure does.

        What already waits in the lane came before it, and goes on.
        """
        error = send_failed(entry, self.queue, cause, attempts=0)
        if entry.lane is not None:
            self._hold_all({entry.lane: error}, now)
        return [(entry, error)]

    def resume(self, lane: str) -> None:
        """Open a held lane to new messages. Without effect if it is not held."""
        self._held.pop(lane, None)

    def give_up(self, cause: Exception) -> list[Failed[E]]:
        """Fail everything that is not stored yet, what is in flight included."""
        sent = self._in_flight or self._again
        waiting = self._waiting
        self._in_flight = self._again = None
        self._waiting = deque()
        self._earliest = math.inf
        failed = self._failures(sent.entries, cause, sent.attempt) if sent else []
        return failed + self._failures(waiting, cause, attempts=0)

    def wake_at(self) -> float | None:
        """When to look again if nothing happens before: a retry is due or a deadline passes."""
        ready = math.inf
        if self._in_flight is None and (self._again or self._waiting):
            ready = self._ready_at()
        wake = min(ready, self._earliest)
        return None if wake == math.inf else wake

    def _ready_at(self) -> float:
        """When the next batch may go: the pause after a failure, and the time to gather one."""
        gathers = self._again is None and len(self._waiting) < self._most
        return max(self._not_before, self._ripe_at) if gathers else self._not_before

    def _compose(self, claim: Callable[[E], bool]) -> tuple[OutboxBatch[E] | None, int]:
        """The next batch, and how many of those that wait were looked at for it."""
        entries: list[E] = []
        size = looked_at = 0
        for entry in self._waiting:
            if not self._fits(entry, entries, size):
                break
            looked_at += 1
            if claim(entry):
                entries.append(entry)
                size += entry.size
        return OutboxBatch(entries) if entries else None, looked_at

    def _fits(self, entry: E, entries: list[E], size: int) -> bool:
        if not entries:
            return True
        return (
            len(entries) < self._most
            and size + entry.size <= self._rules.batch_bytes
            and entry.sys_flag == entries[0].sys_flag
            and not (entry.alone or entries[0].alone)
        )

    def _split(self, batch: OutboxBatch[E]) -> None:
        """Put the members back, in order, each to be sent alone: only the bad one is to fail."""
        for entry in reversed(batch.entries):
            entry.alone = True
            entry.born = batch.entries[0].born  # a copy of it may be stored with this one
            self._waiting.appendleft(entry)
            self._earliest = min(self._earliest, entry.deadline)

    def _plan_retry(self, batch: OutboxBatch[E], now: float) -> bool:
        if batch.attempt > self._rules.retries:
            return False
        doubled = self._rules.retry_backoff * 2 ** (batch.attempt - 1)
        backoff = min(doubled, self._rules.longest_backoff)
        start = max(now + backoff, self._not_before)
        if start >= batch.deadline:
            return False
        self._again = OutboxBatch(batch.entries, batch.attempt + 1)
        self._not_before = start
        return True

    def _fail(self, batch: OutboxBatch[E], cause: Exception, now: float) -> list[Failed[E]]:
        failed = self._failures(batch.entries, cause, batch.attempt)
        lost = {entry.lane: error for entry, error in failed if entry.lane is not None}
        return failed + self._sweep(lost, now)

    def _failures(self, entries: Iterable[E], cause: Exception, attempts: int) -> list[Failed[E]]:
        return [(entry, send_failed(entry, self.queue, cause, attempts)) for entry in entries]

    def _sweep(self, lost: dict[str, SendFailed], now: float) -> list[Failed[E]]:
        """Fail what waits in the lanes `lost`, or too long, and hold every lane that lost one."""
        failed: list[Failed[E]] = []
        kept: deque[E] = deque()
        for entry in self._waiting:
            ahead = lost.get(entry.lane) if entry.lane is not None else None
            if ahead is None and entry.deadline > now:
                kept.append(entry)
                continue
            error = self._given_up(entry, ahead)
            failed.append((entry, error))
            if entry.lane is not None:
                lost.setdefault(entry.lane, error)
        self._waiting = kept
        self._earliest = min((entry.deadline for entry in kept), default=math.inf)
        self._hold_all(lost, now)
        return failed

    def _given_up(self, entry: E, ahead: SendFailed | None) -> SendFailed:
        """The error of an entry that waited too long, or behind one that failed."""
        if entry.unknown is not None:  # so it may be stored
            return send_failed(entry, self.queue, entry.unknown, attempts=0)
        if ahead is not None:
            return preceding_failed(entry, self.queue, ahead)
        return send_failed(entry, self.queue, self._why_late(), attempts=0)

    def _hold_all(self, lost: dict[str, SendFailed], now: float) -> None:
        self._held = {lane: hold for lane, hold in self._held.items() if now < hold.until}
        for lane, error in lost.items():
            self._held[lane] = _Hold(now + self._rules.hold_failed_key, error)

    def _hold_on(self, lane: str | None, now: float) -> _Hold | None:
        hold = self._held.get(lane) if lane is not None else None
        return hold if hold is not None and now < hold.until else None

    def _why_late(self) -> TimeoutError:
        reason = (
            f"the last attempt for the queue failed: {self._last_cause}"
            if self._last_cause
            else "more messages wait for the queue than it takes in that time"
        )
        return TimeoutError(f"its time ran out before its turn came; {reason}")
