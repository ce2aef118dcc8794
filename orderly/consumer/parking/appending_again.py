"""Appends the old messages of one parked key again, in the turns of its lane like a command."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from orderly.consumer.handling.errand import Steps
from orderly.consumer.parking.key_messages import KeyMessages
from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.session import Held, Session, now
from orderly.errors import LockLost, OrderlyError
from orderly.log import key_text, where
from orderly.model import ReceivedMessage
from orderly.ordering.calls import MaxOffset
from orderly.ordering.parking.index import Place
from orderly.ordering.parking.keys import ParkedKey, key_tag
from orderly.protocol.park_record import parked_again

_SLICE = 1.0  # seconds of one turn
_REST = 0.05  # seconds between two turns, in which messages of the key are parked


class AppendAgain:
    """An errand: appends a key's messages again that were stored before a time.

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
        held: Held,
        parked: ParkedKey,
        before: float,
        ready: Callable[[Held], None],
    ) -> None:
        self._session = session
        self._held = held
        self._parked = parked
        self._before = before
        self._ready = ready
        self._queue = ParkQueue(session, held)
        self._tag = key_tag(parked.key)
        self._young = 0  # position of the first message that is not that old
        self._left: deque[Place] | None = None
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

    def tell(self, error: object) -> None:
        """Emit the event that somebody must do something, long before it is too late."""
        self._held.log.error(
            "park.expiring",
            **self._at,
            parked_before=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._before)),
            error=str(error),
        )

    def tell_if_late(self) -> None:
        """The same, if it did not come to its end in all the time it had."""
        if not self._ended and self._held.owned.dropped is None:
            self.tell("the key's lane did not come to its turn: is the queue paused?")

    def steps(self) -> Steps:
        """One turn."""
        try:
            again = self._append_again()
        except OrderlyError as error:
            again, self._ended = False, True
            if self._held.owned.dropped is None:  # else it is the next owner's
                self.tell(error)
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
            self._held.owned.send_errand(self._parked.key, self)
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

    def _old_ones(self, parked: ParkedKey) -> deque[Place]:
        """Those that count and have no younger copy; notes how many are gone."""
        messages = KeyMessages(self._queue, self._held.queue, parked)
        messages.scan(self._session.perform(MaxOffset(self._queue.queue)), self._check_held)
        self._gone = messages.missing
        return deque(place for place in messages.places() if place.position < self._young)

    def _check_held(self) -> None:
        if self._held.owned.dropped is not None:
            raise LockLost(f"{self._held.queue} is being given up, or was lost")

    def _again(self, place: Place) -> None:
        if place.position not in self._block:
            read = self._queue.read(place.position, self._tag)
            self._block = {message.queue_offset: message for message in read.messages}
        stored = self._block.get(place.position)
        if stored is None:  # deleted just now
            self._gone += 1
            return
        self._queue.append(parked_again(stored))
        self._kept += 1
