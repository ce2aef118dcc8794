"""What waits to be sent to one queue, and the rules that keep each key's order there.

The broker reorders sends of one connection that overlap, so one batch at a time is in flight and
everything else waits behind it. A batch that fails is retried as it is, to the same queue; when it
fails for good, the later messages of its keys fail too instead of overtaking it.

No clock and no I/O: the producer passes `now` (seconds) and does the sending.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

from orderly.errors import OrderlyError, SendFailed
from orderly.model import MessageQueue
from orderly.ordering.sending.batch import Batch, E, OutboxRules, Verdict
from orderly.ordering.sending.send_failures import preceding_failed, send_failed


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
    """

    def __init__(self, queue: MessageQueue, rules: OutboxRules) -> None:
        self.queue = queue
        self._rules = rules
        self._waiting: deque[E] = deque()
        self._in_flight: Batch[E] | None = None
        self._again: Batch[E] | None = None
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

    def submit(self, entry: E, now: float) -> list[Failed[E]]:
        """Add an entry behind all others; fails at once if its lane is held."""
        hold = self._hold_on(entry.lane, now)
        if hold is not None:
            return [(entry, preceding_failed(entry, self.queue, hold.cause))]
        if entry.urgent or self._rules.linger == 0:
            self._ripe_at = -math.inf
        elif not self._waiting:
            self._ripe_at = now + self._rules.linger
        self._waiting.append(entry)
        self._earliest = min(self._earliest, entry.deadline)
        return []

    def take(self, now: float, claim: Callable[[E], bool]) -> Batch[E] | None:
        """Take the batch to send now, if one may be sent. Call `expire` first.

        The caller sends it and then calls `stored` or `refused`; until then nothing else is taken.

        Args:
            now: seconds.
            claim: called for each entry of a new batch (again if that batch is split); False
                drops it (it was cancelled): its successors go on as if it had never been there.
        """
        if self._in_flight is not None or now < self._ready_at():
            return None
        self._in_flight, self._again = self._again or self._compose(claim), None
        return self._in_flight

    def stored(self, batch: Batch[E]) -> bool:
        """Note that the broker acknowledged `batch`. False: it had been given up before."""
        if batch is not self._in_flight:
            return False
        self._in_flight = self._last_cause = None
        return True

    def refused(
        self, batch: Batch[E], verdict: Verdict, cause: OrderlyError, now: float
    ) -> list[Failed[E]]:
        """Note that an attempt failed; plan the retry or give up.

        Returns:
            The entries that failed for good, in order. Empty: there will be another attempt, or
            the batch had been given up before.
        """
        if batch is not self._in_flight:
            return []
        self._in_flight = None
        if verdict is Verdict.UNKNOWN:
            self._not_before = now + self._rules.settle
        if verdict is Verdict.BAD_MESSAGE and len(batch.entries) > 1:
            self._split(batch)
            return []
        if verdict in (Verdict.NOT_STORED, Verdict.UNKNOWN) and self._plan_retry(batch, now):
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
        gathers = self._again is None and len(self._waiting) < self._rules.batch_messages
        return max(self._not_before, self._ripe_at) if gathers else self._not_before

    def _compose(self, claim: Callable[[E], bool]) -> Batch[E] | None:
        entries: list[E] = []
        size = 0
        while self._waiting and self._fits(self._waiting[0], entries, size):
            entry = self._waiting.popleft()
            if claim(entry):
                entries.append(entry)
                size += entry.size
        if not self._waiting:
            self._earliest = math.inf
        return Batch(entries) if entries else None

    def _fits(self, entry: E, entries: list[E], size: int) -> bool:
        if not entries:
            return True
        return (
            len(entries) < self._rules.batch_messages
            and size + entry.size <= self._rules.batch_bytes
            and entry.sys_flag == entries[0].sys_flag
            and not (entry.alone or entries[0].alone)
        )

    def _split(self, batch: Batch[E]) -> None:
        """Put the members back, in order, each to be sent alone: only the bad one is to fail."""
        for entry in reversed(batch.entries):
            entry.alone = True
            self._waiting.appendleft(entry)
            self._earliest = min(self._earliest, entry.deadline)

    def _plan_retry(self, batch: Batch[E], now: float) -> bool:
        if batch.attempt > self._rules.retries:
            return False
        doubled = self._rules.retry_backoff * 2 ** (batch.attempt - 1)
        backoff = min(doubled, self._rules.longest_backoff)
        start = max(now + backoff, self._not_before)
        if start >= batch.deadline:
            return False
        self._again = Batch(batch.entries, batch.attempt + 1)
        self._not_before = start
        return True

    def _fail(self, batch: Batch[E], cause: Exception, now: float) -> list[Failed[E]]:
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
            if ahead is not None:
                failed.append((entry, preceding_failed(entry, self.queue, ahead)))
            elif entry.deadline <= now:
                error = send_failed(entry, self.queue, self._why_late(), attempts=0)
                failed.append((entry, error))
                if entry.lane is not None:
                    lost[entry.lane] = error
            else:
                kept.append(entry)
        self._waiting = kept
        self._earliest = min((entry.deadline for entry in kept), default=math.inf)
        self._hold_all(lost, now)
        return failed

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
        return TimeoutError(f"its time was over before its turn came; {reason}")
