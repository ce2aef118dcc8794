"""Where the messages of one parked key are, in the order in which they are to be replayed.

They are replayed by their offset in the source queue: their positions in the park queue say nothing
about the order, for after a crash messages are appended again.
"""

from __future__ import annotations

from typing import NamedTuple

from orderly.ordering.parking.keys import Key
from orderly.protocol.park_record import Parked


class Place(NamedTuple):
    """Where one parked message is: its source offset, and its position in the park queue."""

    offset: int
    position: int


class _Copy(NamedTuple):
    tried: bool
    position: int


class KeyIndex:
    """The messages of one key that are to be replayed. Not thread-safe.

    Args:
        key: which one.
        first: source offset of the first message that is not settled.
    """

    def __init__(self, key: Key, first: int) -> None:
        self._key = key
        self._first = first
        self._copies: dict[int, _Copy] = {}
        self._sorted: list[int] | None = []

    def __len__(self) -> int:
        return len(self._copies)

    def add(self, parked: Parked) -> bool:
        """Note a message read from the park queue; returns whether it is one of this key's.

        Those with the same source offset are one: the last one, but one that was tried tells more
        than one that was not.
        """
        if parked.key != self._key or parked.offset < self._first:
            return False
        copy = _Copy(parked.details.attempts > 0, parked.position)
        before = self._copies.get(parked.offset)
        if before is None:
            self._sorted = None
        self._copies[parked.offset] = copy if before is None else max(before, copy)
        return True

    def lowest(self, count: int) -> list[Place]:
        """Return the first messages, in the order of the source queue."""
        if self._sorted is None:
            self._sorted = sorted(self._copies)
        return [Place(at, self._copies[at].position) for at in self._sorted[:count]]

    def settle(self, below: int) -> None:
        """Forget the messages below a source offset, also those that are still to come."""
        self._first = max(self._first, below)
        self._copies = {at: copy for at, copy in self._copies.items() if at >= below}
        self._sorted = None
