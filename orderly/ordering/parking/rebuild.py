"""The parked keys of a queue worked out from its park queue, where the state record is lost.

The messages there describe themselves, and tombstones tell what is settled. What an owner appended
and never had on record counts, too: its key is then parked a little earlier than it was.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from orderly.errors import LockLost, NotAvailableYet, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.calls import Dialogue, LockQueues, ParkedRead, ReadParked
from orderly.ordering.parking.keys import Kept, Key, ParkedKey, ParkedKeys
from orderly.protocol.park_record import (
    Command,
    Parked,
    Released,
    Result,
    Unknown,
    read_park,
)
from orderly.protocol.seal import written_behind

_RENEW_EVERY = 50  # blocks: a thousand of them may take longer than a lock lasts


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a park queue tells.

    Attributes:
        kept: the keys parked there, and up to where commands are settled.
        passed_over: messages that are foreign or damaged.
    """

    kept: Kept
    passed_over: int


def rebuild(park_queue: MessageQueue, source: MessageQueue | None = None) -> Dialogue[Rebuilt]:
    """Read a park queue from its beginning to its end.

    Args:
        park_queue: which one.
        source: the queue it belongs to, whose lock is renewed on the way; None: nobody owns it.

    Raises:
        LockLost: somebody else has the lock by now.
        NotAvailableYet: a newer release wrote there.
        OrderlyError: it cannot be read; nothing of its source queue may be handled.
    """
    found, at = _Found(), 0
    for block in itertools.count(1):
        try:
            read: ParkedRead = yield ReadParked(park_queue, at)
        except OrderlyError as error:
            raise OrderlyError(
                f"which keys are parked is no longer on record and cannot be read from {park_queue}"
                f" either ({error}); it is tried again"
            ) from error
        if read.unsealed:
            raise OrderlyError(
                f"which keys are parked is no longer on record, and {park_queue} holds parked"
                " messages that none of record_secrets has sealed: somebody forged them, or a"
                " member without these secrets parked them. Look at them with any tool; to have"
                " them believed, give all members an empty secret, too, as in 'secret;'"
            )
        for message in read.messages:
            found.take(message)
        if read.next_offset <= at:
            break
        at = read.next_offset
        if source is not None and block % _RENEW_EVERY == 0:
            yield from _renew(source)
    return Rebuilt(found.kept(at), found.passed_over)


def _renew(source: MessageQueue) -> Dialogue[None]:
    granted = yield LockQueues(source.broker_name, (source,))
    if source not in granted:
        raise LockLost(f"{source} was taken by another member while its parked keys were read")


@dataclass(slots=True)
class _Place:
    """One parked message that is not settled: where its first copy is, and its bytes."""

    position: int
    size: int


@dataclass(slots=True)
class _Found:
    """What was read so far."""

    keys: dict[Key, dict[int, _Place]] = field(default_factory=dict)
    commands: dict[str, int] = field(default_factory=dict)  # not settled: position by id
    passed_over: int = 0

    def take(self, message: ReceivedMessage) -> None:
        """Go on by one message."""
        try:
            record = read_park(message)
        except ProtocolError:
            self.passed_over += 1
            return
        match record:
            case Parked() if not _is_of(record, message.queue):
                self.passed_over += 1
            case Parked():
                place = _Place(record.position, record.size)
                self.keys.setdefault(record.key, {}).setdefault(record.offset, place)
            case Released():
                self._release(record, written_behind(message))
            case Command():
                self.commands.setdefault(record.id, message.queue_offset)
            case Result():
                if record.done:
                    self.commands.pop(record.id, None)
            case Unknown():
                raise NotAvailableYet(
                    f"{message.queue} holds messages of format {record.version}, which this"
                    " release cannot read: a newer one parked them; upgrade this member"
                )

    def _release(self, record: Released, newest: int) -> None:
        # Only what was parked before: the committed offset may have been set back since.
        places = self.keys.pop(record.key, {})
        left = {
            offset: place
            for offset, place in places.items()
            if offset >= record.below or place.position > newest
        }
        if left:
            self.keys[record.key] = left

    def kept(self, end: int) -> Kept:
        """What it amounts to; `end` is where the queue ends."""
        table = ParkedKeys(Kept(tuple(map(_parked_key, self.keys.items()))))
        return Kept(table.snapshot(), min(self.commands.values(), default=end))


def _is_of(record: Parked, park_queue: MessageQueue) -> bool:
    """Whether it came from the source queue of this park queue; who writes by hand may err."""
    source = record.original.queue
    return (source.broker_name, source.queue_id) == (park_queue.broker_name, park_queue.queue_id)


def _parked_key(item: tuple[Key, dict[int, _Place]]) -> ParkedKey:
    key, places = item
    return ParkedKey(
        key,
        next=min(places),
        at=min(place.position for place in places.values()),
        messages=len(places),
        size=sum(place.size for place in places.values()),
        counted_to=max(places) + 1,
    )
