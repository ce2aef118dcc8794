"""The parked messages of one key, in the order of its source queue, bodies read block by block.

Of all that wait only their places are kept: a key may have a hundred thousand messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from orderly.consumer.parking.reading import ParkQueue
from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.parking.index import KeyIndex, Place
from orderly.ordering.parking.keys import ParkedKey, key_tag
from orderly.protocol.park_record import Parked, read_parked

_LINE = 1000  # places taken off the index at once


class KeyMessages:
    """Not thread-safe. What reads raises OrderlyError if the broker does not answer.

    Args:
        queue: the park queue.
        source: the queue the messages came from; others' do not count.
        parked: the key, as it is on record.

    Attributes:
        scanned: position up to which was looked.
        gone_below: position below which the broker has deleted messages by their age.
    """

    def __init__(self, queue: ParkQueue, source: MessageQueue, parked: ParkedKey) -> None:
        self.gone_below = 0
        self._queue = queue
        self._source = source
        self._tag = key_tag(parked.key)
        self._index = KeyIndex(parked.key, parked.next)
        self.scanned = parked.at
        self._line: deque[Place] = deque()
        self._block: dict[int, Parked] = {}  # by position

    def __len__(self) -> int:
        """How many there are, as far as was scanned."""
        return len(self._index)

    def scan(self, end: int, check: Callable[[], None] = lambda: None) -> None:
        """Find what is parked below position `end`; that must be visible.

        Args:
            end: see above.
            check: called before each block; may raise, then a later call goes on from there.
        """
        while self.scanned < end:
            check()
            read = self._queue.read(self.scanned, self._tag)
            if read.next_offset <= self.scanned:
                raise OrderlyError(f"{self._queue.queue} was to be read up to {end}, and ends")
            self.gone_below = max(self.gone_below, read.min_offset)
            for stored in read.messages:
                parked = self._read(stored)
                if parked is not None and stored.queue_offset < end:
                    self._index.add(parked)
            self.scanned = min(read.next_offset, end)

    def places(self, count: int | None = None) -> list[Place]:
        """The first ones; None: all."""
        return self._index.lowest(len(self._index) if count is None else count)

    @property
    def first(self) -> Place | None:
        """The first one that was not passed; None: there is none as far as was scanned."""
        if not self._line:
            self._line.extend(self._index.lowest(_LINE))
        return self._line[0] if self._line else None

    def passed(self) -> None:
        """Go on behind the first one."""
        place = self._line.popleft()
        if not self._line:
            self._index.settle(place.offset + 1)

    def body(self, place: Place) -> Parked | None:
        """Read a message; None: it is not there any more, or damaged."""
        if place.position not in self._block:
            read = self._queue.read(place.position, self._tag)
            found = (self._read(stored) for stored in read.messages)
            self._block = {parked.position: parked for parked in found if parked is not None}
        return self._block.get(place.position)

    def _read(self, stored: ReceivedMessage) -> Parked | None:
        """A message of the topic as a parked one of our queue; None: it is foreign."""
        try:
            parked = read_parked(stored)
        except ProtocolError:
            return None
        return parked if parked.original.queue == self._source else None
