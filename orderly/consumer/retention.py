"""What the broker is about to delete by its age: looked for, and kept in time.

Brokers delete whole files by age (72 hours by default), earlier where their disk is full. Every
hour old parked messages are appended again. Every ten minutes old unfinished messages are looked
for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from orderly.client.client import retention
from orderly.clock import now
from orderly.consumer.handler_caller import TaskSteps
from orderly.consumer.park_queue import KeyMessages, ParkQueue
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LockLost, NotAtProxy, OrderlyError, RemotingError
from orderly.log import key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.broker_calls import MaxOffset
from orderly.ordering.explain import explain
from orderly.ordering.lane import Turn
from orderly.ordering.parking import ParkedPlace
from orderly.protocol.park_record import parked_again
from orderly.protocol.parked_key import ParkedKey, key_tag

KEEP_INTERVAL = 3600.0  # seconds
FIRST_KEEP = 60.0  # seconds after the start: members may live for less than an hour
RETENTION = 72 * 3600.0  # seconds, where a broker does not say; Java: MessageStoreConfig
# Seconds, where nobody may ask: 24 hours is what many brokers are set to. Half of what is too short
# costs some appends, half of what is too long costs the parked messages.
UNSEEN_RETENTION = 24 * 3600.0
_PART = 0.5  # of the retention, after which a message is appended again


def keeps_for(session: Session, held: HeldQueue) -> float:
    """For how long the queue's broker keeps messages (seconds); asks it."""
    try:
        return retention(session.client, held.queue)
    except OrderlyError as error:
        if session.config.retention is not None:
            return session.config.retention
        taken_for = UNSEEN_RETENTION if isinstance(error, NotAtProxy) else RETENTION
        held.log.warning("park.retention_unknown", taken_for=taken_for, error=str(error))
        return taken_for


class RetentionRefresh:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
        ready: called when a queue has something to run.
    """

    def __init__(self, session: Session, ready: Callable[[HeldQueue], None]) -> None:
        self._session = session
        self._ready = ready
        self._under_way: list[KeyRefresh] = []

    def round(self) -> None:
        """Begin with each key whose oldest message is old enough."""
        for late in self._under_way:
            late.log_if_late()
        self._under_way = []
        retentions: dict[str, float] = {}
        silent: set[str] = set()
        for held in self._session.held():
            broker = held.queue.broker_name
            if held.owned.dropped is not None or not held.owned.parking or broker in silent:
                continue
            if broker not in retentions:
                retentions[broker] = keeps_for(self._session, held)
            if not self._keep(held, time.time() - retentions[broker] * _PART):
                silent.add(broker)

    def _keep(self, held: HeldQueue, before: float) -> bool:
        """Begin with the keys of one queue; returns whether its broker answers."""
        with held.lock:
            keys = held.owned.parking.snapshot()
        for parked in keys:
            keeping = KeyRefresh(self._session, held, parked, before, self._ready)
            try:
                begun = keeping.begin()
            except OrderlyError as error:
                keeping.log_expiring(error)
                if isinstance(error, RemotingError):
                    return False
                continue
            if begun:
                self._under_way.append(keeping)
        return True


# --- one key's old messages, appended again in the turns of its lane ------------------------------


_SLICE = 1.0  # seconds of one turn
_REST = 0.05  # seconds between two turns, in which messages of the key are parked


class KeyRefresh:
    """A lane task: appends a key's messages again that were stored before a time.

    Args:
        session: the consumer's shared state.
        held: the queue.
        parked: the key.
        before: seconds since the epoch.
        ready: called when a queue has something to run.
    """

    def __init__(
        self,
        session: Session,
        held: HeldQueue,
        parked: ParkedKey,
        before: float,
        ready: Callable[[HeldQueue], None],
    ) -> None:
        self._session = session
        self._held = held
        self._parked = parked
        self._before = before
        self._ready = ready
        self._queue = ParkQueue(session, held)
        self._tag = key_tag(parked.key)
        self._young = 0  # position of the first message that is not that old
        self._left: deque[ParkedPlace] | None = None
        self._block: dict[int, ReceivedMessage] = {}  # by position
        self._kept = 0
        self._gone = 0  # deleted by the broker before they were appended again
        self._ended = False

    def begin(self) -> bool:
        """Look at the oldest ones; returns whether there is anything to do."""
        self._young = self._find_young()
        if self._young > self._parked.at:
            self._send()
            return True
        return False

    def log_expiring(self, error: object) -> None:
        """Log that somebody must do something, long before it is too late."""
        self._held.log.error(
            "park.expiring",
            **self._at,
            parked_before=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._before)),
            error=str(error),
        )

    def log_if_late(self) -> None:
        """The same, if it did not come to its end in all the time it had."""
        if not self._ended and self._held.owned.dropped is None:
            self.log_expiring("the key's turn did not come: a handler call with it still runs")

    def steps(self) -> TaskSteps:
        """One turn."""
        try:
            again = self._append_again()
        except OrderlyError as error:
            again, self._ended = False, True
            if self._held.owned.dropped is None:  # else it is the next owner's
                self.log_expiring(error)
        if again:
            self._session.client.schedule.after(_REST, self._send)
        else:
            self._ended = True
        yield from ()  # the handler is called for none of them

    @property
    def _at(self) -> dict[str, object]:
        at = where(self._session.group, self._held.queue)
        return {**at, "key": key_text(self._parked.key)}

    def _send(self) -> None:
        with self._held.lock:
            if self._held.owned.dropped is not None:
                return
            self._held.owned.want_turn(self._parked.key, Turn(self, errand=True))
        self._ready(self._held)

    def _find_young(self) -> int:
        """Position of the first of the key's messages that is young enough, or where they end."""
        at = self._parked.at
        while True:
            read = self._queue.read(at, self._tag)
            young = (m.queue_offset for m in read.messages if m.store_time >= self._before)
            found = next(young, None)
            if found is not None or read.next_offset <= at:
                return at if found is None else found
            at = read.next_offset

    def _append_again(self) -> bool:
        """Append for a while; returns whether something is left."""
        with self._held.lock:
            parked = self._held.owned.parking.get(self._parked.key)
        if parked is None or parked.at != self._parked.at or self._held.owned.dropped is not None:
            return False  # released meanwhile, or somebody else's
        if self._left is None:
            self._left = self._old_ones(parked)
        end = now() + _SLICE
        while self._left:
            self._check_held()
            self._again(self._left[0])
            self._left.popleft()
            if now() >= end and self._left:
                return True
        self._end(parked)
        return False

    def _end(self, parked: ParkedKey) -> None:
        """Note where they are now; not if some are gone: then the next release stops for that."""
        if self._gone > 0:
            self._held.log.error("park.expired", **self._at, messages=self._gone)
        else:
            with self._held.lock:
                self._held.owned.parking.moved(parked.key, self._young)
        self._held.log.info("park.kept", **self._at, messages=self._kept)

    def _old_ones(self, parked: ParkedKey) -> deque[ParkedPlace]:
        """Those that count and have no younger copy; notes how many are gone."""
        messages = KeyMessages(self._queue, self._held.queue, parked)
        messages.scan(self._session.perform(MaxOffset(self._queue.queue)), self._check_held)
        self._gone = messages.missing
        return deque(place for place in messages.places() if place.position < self._young)

    def _check_held(self) -> None:
        if self._held.owned.dropped is not None:
            raise LockLost(f"{self._held.queue} is being given up, or was lost")

    def _again(self, place: ParkedPlace) -> None:
        if place.position not in self._block:
            read = self._queue.read(place.position, self._tag)
            self._block = {message.queue_offset: message for message in read.messages}
        stored = self._block.get(place.position)
        if stored is None:  # deleted just now
            self._gone += 1
            return
        self._queue.append(parked_again(stored))
        self._kept += 1


# --- unfinished messages that the broker is about to delete ---------------------------------------
# At half of the broker's retention an event says so. At three quarters a message that fails once
# more is kept elsewhere: parked with its key, or stored as a dead letter
# (`ConsumerConfig.on_expiring`). Where a broker's disk is full it deletes earlier, without a
# warning.


AGES_INTERVAL = 600.0  # seconds
LEAST_AGE = 1800.0  # seconds: half of an hour, which is the least that a broker can be set to keep


class Expiring:
    """Of one consumer. One thread calls `round`.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def round(self) -> None:
        """Look at each queue held; a broker is asked only about messages that are old."""
        retentions: dict[str, float] = {}
        for held in self._session.held():
            broker = held.queue.broker_name
            if held.owned.dropped is not None:
                continue
            if broker not in retentions and self._is_old(held):
                retentions[broker] = keeps_for(self._session, held)
            self._look(held, retentions.get(broker, float("inf")))

    def _is_old(self, held: HeldQueue) -> bool:
        with held.lock:
            lane = held.owned.messages.lowest_lane
            oldest = None if lane is None else lane.oldest
        return oldest is not None and time.time() - oldest >= LEAST_AGE

    def _look(self, held: HeldQueue, retention: float) -> None:
        policy = self._session.config.on_expiring
        act = held.memory is not None if policy == "park" else policy == "dead_letter"
        with held.lock:
            expires = held.owned.look_at_ages(now(), time.time(), retention, act=act)
            explained = explain(held.owned, now())
        if expires and explained.expires_in is not None:
            held.log.error(
                "message.expiring",
                offset=explained.offset,
                key=key_text(explained.key),
                attempt=explained.attempt,
                seconds=round(explained.expires_in),
            )
