"""The park queue of a held queue: what is appended to it, and read from it.

Every call that asks the broker blocks for up to a request's time-out, and raises OrderlyError if
there is no answer, or the broker refuses.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from orderly.client.dialogues import append_parked
from orderly.clock import now
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LockLost, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import ParkedRead, ReadParked
from orderly.ordering.parking import KeyIndex, ParkedPlace, parked_of
from orderly.ordering.topic_names import park_topic
from orderly.protocol.park_record import Parked, ParkMessage
from orderly.protocol.parked_key import ParkedKey, key_tag
from orderly.protocol.record_format import Seal

_LOOKS = 20
_PAUSE = 0.01  # seconds between two looks
_PATIENCE = 3  # reads, each of which waits, before what is stored counts as invisible


class ParkQueue:
    """The park queue of one held queue. Thread-safe.

    Args:
        session: the consumer's shared state.
        held: the queue.
    """

    def __init__(self, session: Session, held: HeldQueue) -> None:
        self._session = session
        self._held = held
        self._seal = Seal(session.group, session.client.config.record_secrets)
        self.queue = replace(held.queue, topic=park_topic(session.group, held.queue.topic))

    def append(self, message: ParkMessage) -> int:
        """Store a message; returns its position. It may be stored without an answer.

        Raises:
            LockLost: the source queue is not ours, or results do not count any more.
            OrderlyError: a failure that may pass.
        """
        with self._held.lock:
            ours = self._held.owned.keeps_lock(now()) and self._held.owned.counts
        if not ours:
            raise LockLost(f"{self._held.queue} is no longer ours; nothing is parked")
        brokers = self._session.client.brokers
        return append_parked(brokers, self._session.group, self._seal, self.queue, message)

    def read(self, position: int, tag: str | None = None, *, wait: bool = False) -> ParkedRead:
        """Read one block from a position on."""
        answer: ParkedRead = self._session.perform(ReadParked(self.queue, position, tag, wait))
        return answer

    def await_visible(self, position: int) -> None:
        """Wait until what was stored at a position, and all before it, can be read.

        Raises:
            OrderlyError: it does not become so.
        """
        for _ in range(_LOOKS):  # a broker that is asked to wait may sleep 5 s over what came now
            if self.read(position).next_offset > position:
                return
            time.sleep(_PAUSE)
        for _ in range(_PATIENCE):
            if self.read(position, wait=True).next_offset > position:
                return
        raise OrderlyError(f"the message at {position} of {self.queue} cannot be read")


# --- the parked messages of one key ---------------------------------------------------------------
# In the order of its source queue, bodies read block by block. Of all that wait only their places
# are kept: a key may have a hundred thousand messages.


_LINE = 1000  # places taken off the index at once


class KeyMessages:
    """Not thread-safe. What reads raises OrderlyError if the broker does not answer.

    Args:
        queue: the park queue.
        source: the queue the messages came from; others' do not count.
        parked: the key, as it is on record.

    Attributes:
        scanned: position up to which was looked.
        missing: how many of the key's messages the broker has deleted by their age, or damaged.
    """

    def __init__(self, queue: ParkQueue, source: MessageQueue, parked: ParkedKey) -> None:
        self._queue = queue
        self._source = source
        self._parked = parked
        self._tag = key_tag(parked.key)
        self._index = KeyIndex(parked.key, parked.next)
        self.scanned = parked.at
        self._floor = 0  # below it the broker has deleted messages by their age
        self._damaged = False
        self._line: deque[ParkedPlace] = deque()
        self._block: dict[int, Parked] = {}  # by position

    def __len__(self) -> int:
        """How many there are, as far as was scanned."""
        return len(self._index)

    @property
    def missing(self) -> int:
        """See above; 0 where nothing was seen to be lost: the number on record may be too high."""
        if self._floor <= self._parked.at and not self._damaged:
            return 0
        return max(0, self._parked.messages - len(self))

    def scan(self, end: int, check: Callable[[], None] = lambda: None) -> None:
        """Find what is parked below position `end`; that must be visible.

        Args:
            end: see above.
            check: called before each block; may raise, then a later call goes on from there.

        Raises:
            NotAvailableYet: a newer release parked some of it.
        """
        while self.scanned < end:
            check()
            read = self._queue.read(self.scanned, self._tag)
            if read.next_offset <= self.scanned:
                raise OrderlyError(f"cannot read {self._queue.queue} up to {end}: it ends before")
            self._floor = max(self._floor, read.min_offset)
            for stored in read.messages:
                parked = self._read(stored)
                if parked is not None and stored.queue_offset < end:
                    self._index.add(parked)
            self.scanned = min(read.next_offset, end)

    def places(self, count: int | None = None) -> list[ParkedPlace]:
        """The first ones; None: all."""
        return self._index.lowest(len(self._index) if count is None else count)

    @property
    def first(self) -> ParkedPlace | None:
        """The first one that was not passed; None if the scanned part has none."""
        if not self._line:
            self._line.extend(self._index.lowest(_LINE))
        return self._line[0] if self._line else None

    def passed(self) -> None:
        """Go on behind the first one."""
        place = self._line.popleft()
        if not self._line:
            self._index.settle(place.offset + 1)

    def body(self, place: ParkedPlace) -> Parked | None:
        """Read a message; None: it is not there any more, or damaged."""
        if place.position not in self._block:
            read = self._queue.read(place.position, self._tag)
            found = (self._read(stored) for stored in read.messages)
            self._block = {parked.position: parked for parked in found if parked is not None}
        return self._block.get(place.position)

    def _read(self, stored: ReceivedMessage) -> Parked | None:
        """A message of the topic as a parked one of our queue; None: it is foreign, or damaged."""
        try:
            return parked_of(stored, self._source)
        except ProtocolError:
            self._damaged = True
            return None
