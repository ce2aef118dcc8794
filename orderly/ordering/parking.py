"""Parked keys of one queue: which wait, how many may, and where their messages are.

`ParkedKeys` is the table that the owner keeps and puts on record. `KeyIndex` is the order in
which the messages of one key are replayed. `rebuild` makes the table again where the record is
lost.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orderly.config.consumer import ParkLimits
from orderly.errors import LockLost, NotAvailableYet, OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import Dialogue, LockQueues, ParkedRead, ReadParked
from orderly.ordering.lru import put_latest
from orderly.protocol.park_record import Command, Parked, Released, Result, read_park
from orderly.protocol.parked_key import Key, ParkedKey
from orderly.protocol.record_format import Unknown, written_behind

# --- the table ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParkingState:
    """What is on record of a queue's parked keys.

    Attributes:
        parked: the keys, sorted.
        commands: position in the park queue up to which its commands are settled.
    """

    parked: tuple[ParkedKey, ...] = ()
    commands: int = 0


NOTHING_PARKED = ParkingState()


@dataclass(slots=True)
class _Newest:
    """The newest message noted of a key since the queue was taken."""

    offset: int
    position: int


class ParkedKeys:
    """A table of parked keys. Not thread-safe: the lock of its queue is around every call.

    Args:
        kept: what was inherited.
        generation: of the source topic; new keys are of this one.

    Attributes:
        commands: position in the park queue up to which its commands are settled.
        messages, size: parked altogether, and their bytes; see `ParkedKey`.
    """

    __slots__ = ("_counted", "_generation", "_keys", "_newest", "commands", "messages", "size")

    def __init__(self, kept: ParkingState = NOTHING_PARKED, generation: int = 0) -> None:
        self.commands = kept.commands
        self._generation = generation
        self.messages = 0
        self.size = 0
        self._keys: dict[Hashable, ParkedKey] = {}
        self._newest: dict[Hashable, _Newest] = {}
        # Source offsets that former owners have counted: what of them did not get as far as the
        # record of what is finished is appended again.
        self._counted: dict[Hashable, range] = {
            each.key: range(each.next, each.counted_to) for each in kept.parked
        }
        for parked in kept.parked:
            self._put(parked)

    def __len__(self) -> int:
        return len(self._keys)

    def parked(self, key: Hashable) -> bool:
        """Whether a key is parked."""
        return key in self._keys

    def get(self, key: Hashable) -> ParkedKey | None:
        """What is noted of a key, or None."""
        return self._keys.get(key)

    def is_former(self, key: Hashable) -> bool:
        """Whether a key was parked in a former generation of the topic.

        Its later messages count from 0 again. They wait until it is released or dropped: beside
        those that are parked nobody would know which comes first.
        """
        parked = self._keys.get(key)
        return parked is not None and parked.generation != self._generation

    def snapshot(self) -> tuple[ParkedKey, ...]:
        """All of them, sorted: numbers first."""
        return tuple(sorted(self._keys.values(), key=_sort_key))

    @property
    def kept(self) -> ParkingState:
        """What is to be on record."""
        return ParkingState(self.snapshot(), self.commands)

    def last_position(self, key: Hashable) -> int:
        """Position of the newest message noted of a parked key.

        Of an inherited key that got none since, it is where its messages begin: look on to the end.
        """
        newest = self._newest.get(key)
        return self._keys[key].at if newest is None else newest.position

    def note(self, key: Key, offset: int, position: int, size: int) -> None:
        """Note one message of a key that was appended to the park queue; the first parks the key.

        One that was appended again counts once, whoever appended it first. One below the key's
        `next` comes after the committed offset was set back: it is replayed again.

        Args:
            key: of its lane.
            offset: in the source queue.
            position: in the park queue.
            size: bytes.
        """
        before = self._keys.get(key)
        if before is None:
            before = ParkedKey(key, offset, position, generation=self._generation)
            self._counted.pop(key, None)
            self._newest.pop(key, None)
        newest = self._newest.get(key)
        highest = offset if newest is None else max(offset, newest.offset)
        counted = newest is not None and offset <= newest.offset
        is_new = not counted and offset not in self._counted.get(key, ())
        self._newest[key] = _Newest(highest, position)
        self._put(
            replace(
                before,
                next=min(before.next, offset),
                messages=before.messages + is_new,
                size=before.size + is_new * size,
                counted_to=max(before.counted_to, offset + 1),
            )
        )

    def settled(self, key: Key, next_offset: int, *, messages: int = 0, size: int = 0) -> None:
        """Note that a key's messages below `next_offset` need no replay any more.

        Args:
            key: a parked one.
            next_offset: source offset of the first one that does.
            messages: how many were settled now.
            size: their bytes.
        """
        before = self._keys[key]
        left, bytes_left = max(0, before.messages - messages), max(0, before.size - size)
        self._put(replace(before, next=next_offset, messages=left, size=bytes_left))

    def moved(self, key: Key, at: int) -> None:
        """Note that all messages of a key were appended again, from position `at` on."""
        self._put(replace(self._keys[key], at=at))

    def release(self, key: Key) -> None:
        """Forget a key: it is not parked any more."""
        self._count(self._keys.pop(key), -1)
        # What was newest of this key stays for `restore`; of those released earlier it goes.
        self._newest = {
            k: newest for k, newest in self._newest.items() if k in self._keys or k == key
        }

    def restore(self, parked: ParkedKey) -> None:
        """Put back what `get` returned: its end, or its progress, could not be recorded."""
        self._put(parked)

    def _put(self, parked: ParkedKey) -> None:
        before = self._keys.get(parked.key)
        if before is not None:
            self._count(before, -1)
        self._keys[parked.key] = parked
        self._count(parked, 1)

    def _count(self, parked: ParkedKey, sign: int) -> None:
        self.messages += sign * parked.messages
        self.size += sign * parked.size


def _sort_key(parked: ParkedKey) -> tuple[bool, Key]:
    return isinstance(parked.key, str), parked.key


# --- whether one more message may be parked in a queue --------------------------------------------


def limit_reached(
    limits: ParkLimits, parking: ParkedKeys, key: Hashable, messages: int, size: int
) -> str | None:
    """Return why messages must not be parked, for the log, or None: they may.

    Args:
        limits: the queue's share of them.
        parking: what is parked in the queue.
        key: of the messages.
        messages: how many are to be parked.
        size: their bytes.
    """
    if not parking.parked(key) and len(parking) >= limits.keys:
        return f"{len(parking)} keys of the queue are parked, its share of the limit"
    if parking.messages + messages > limits.messages:
        return _over("messages", parking.messages, messages, limits.messages)
    if parking.size + size > limits.size:
        return _over("bytes", parking.size, size, limits.size)
    return None


def _over(what: str, present: int, more: int, limit: int) -> str:
    return (
        f"{present} {what} of the queue are parked, {more} more are over its share of the limit,"
        f" {limit}"
    )


# --- which part of the keys seen lately was parked ------------------------------------------------
# After a bad deploy it is nearly all of them.


WINDOW = 300.0  # seconds
FREE = 5  # keys that can be parked, however few were seen
_MOST = 10_000  # keys remembered; with more in the window the limit is a little stricter


class KeyRatio:
    """Counts the keys of one member. Not thread-safe.

    Args:
        ratio: the part of the keys seen in the last five minutes that may be newly parked.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio = ratio
        self._seen: OrderedDict[Hashable, float] = OrderedDict()  # in the order of their times
        self._parked: OrderedDict[Hashable, float] = OrderedDict()

    def saw(self, key: Hashable, now: float) -> None:
        """Note that a message of `key` was handled, at `now` (seconds)."""
        put_latest(self._seen, key, now, _MOST)

    def refuses(self, key: Hashable, now: float) -> str | None:
        """Return why one more key must not be parked now, for the log, or None: it may."""
        _forget(self._seen, now)
        _forget(self._parked, now)
        parked = len(self._parked) - (key in self._parked)
        seen = len(self._seen) + (key not in self._seen)
        if parked < FREE or parked + 1 <= self._ratio * seen:
            return None
        return (
            f"{parked} of {seen} keys of the last {WINDOW / 60:g} minutes are parked, and one more"
            f" would be over the allowed share of {self._ratio:g}: the handler is at fault, not"
            " the messages"
        )

    def parks(self, key: Hashable, now: float) -> None:
        """Note that `key` was parked."""
        put_latest(self._parked, key, now, _MOST)


def _forget(times: OrderedDict[Hashable, float], now: float) -> None:
    """Drop what is older than the window; the oldest are first."""
    while times and next(iter(times.values())) <= now - WINDOW:
        times.popitem(last=False)


# --- where the messages of one parked key are, in the order in which they are replayed ------------
# They are replayed by their offset in the source queue: their positions in the park queue say
# nothing about the order, for after a crash messages are appended again.


class ParkedPlace(NamedTuple):
    """Where one parked message is: its source offset, and its position in the park queue."""

    offset: int
    position: int


class _Copy(NamedTuple):
    content: int
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
        """Note a message read from the park queue; returns whether it counts. Positions rise.

        Those with the same source offset are one. The first says which message it is: what is
        appended later with another content, or as another message, does not count. Of the others
        it is the last one, since brokers delete it last; but one that was tried says more than one
        that was not.
        """
        if parked.key != self._key or parked.offset < self._first:
            return False
        copy = _Copy(_content(parked.original), parked.details.attempts > 0, parked.position)
        before = self._copies.get(parked.offset)
        if before is None:
            self._sorted = None
        elif before.content != copy.content:
            return False
        self._copies[parked.offset] = copy if before is None else max(before, copy)
        return True

    def lowest(self, count: int) -> list[ParkedPlace]:
        """Return the first messages, in the order of the source queue."""
        if self._sorted is None:
            self._sorted = sorted(self._copies)
        return [ParkedPlace(at, self._copies[at].position) for at in self._sorted[:count]]

    def settle(self, below: int) -> None:
        """Forget the messages below a source offset, also those that are still to come."""
        self._first = max(self._first, below)
        self._copies = {at: copy for at, copy in self._copies.items() if at >= below}
        self._sorted = None


def _content(message: ReceivedMessage) -> int:
    """A hash of what a handler gets, the same for each copy of a message."""
    properties = frozenset(message.properties.items())
    kind, body = type(message), message.raw_body
    return hash((kind, message.offset_message_id, message.flag, body, properties))


# --- what lies in a park queue: whose parked messages, and what nobody here can read --------------


def parked_of(stored: ReceivedMessage, source: MessageQueue) -> Parked | None:
    """Return a message of a park queue as a parked one of `source`; None: it is something else.

    Raises:
        NotAvailableYet: a newer release parked it: to pass it over would be to lose it.
        ProtocolError: it is foreign, or damaged.
    """
    record = read_park(stored)
    if isinstance(record, Unknown):
        raise NotAvailableYet(
            f"position {stored.queue_offset} of {stored.queue} is of format {record.version}, which"
            " this release cannot read: a newer one parked it; upgrade this client"
        )
    return record if isinstance(record, Parked) and record.original.queue == source else None


# --- the table, worked out from the park queue where the state record is lost ---------------------
# The messages there describe themselves, and tombstones say what is settled. What an owner
# appended and never had on record counts, too: its key is then parked a little earlier than it
# was.


_RENEW_EVERY = 50  # blocks: a thousand of them may take longer than a lock lasts


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a park queue shows.

    Attributes:
        kept: the keys parked there, and up to where commands are settled.
        passed_over: messages that are foreign or damaged.
    """

    kept: ParkingState
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
                f"the record of parked keys is gone, and {park_queue} cannot be read either"
                f" ({error}); the member tries again"
            ) from error
        if read.unsealed:
            raise OrderlyError(
                f"the record of parked keys is gone, and {park_queue} holds parked messages that"
                " none of record_secrets has sealed: somebody forged them, or a member without"
                " these secrets parked them. Look at them with any tool. To accept them, also give"
                " all members an empty secret, as in 'secret;'"
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
class _FirstCopy:
    """One parked message that is not settled: where its first copy is, and its bytes."""

    position: int
    size: int


@dataclass(slots=True)
class _Found:
    """What was read so far."""

    keys: dict[Key, dict[int, _FirstCopy]] = field(default_factory=dict)
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
                place = _FirstCopy(record.position, record.size)
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

    def kept(self, end: int) -> ParkingState:
        """What it amounts to; `end` is where the queue ends."""
        table = ParkedKeys(ParkingState(tuple(map(_parked_key, self.keys.items()))))
        return ParkingState(table.snapshot(), min(self.commands.values(), default=end))


def _is_of(record: Parked, park_queue: MessageQueue) -> bool:
    """Whether it came from the source queue of this park queue; who writes by hand may err."""
    source = record.original.queue
    return (source.broker_name, source.queue_id) == (park_queue.broker_name, park_queue.queue_id)


def _parked_key(item: tuple[Key, dict[int, _FirstCopy]]) -> ParkedKey:
    key, places = item
    return ParkedKey(
        key,
        next=min(places),
        at=min(place.position for place in places.values()),
        messages=len(places),
        size=sum(place.size for place in places.values()),
        counted_to=max(places) + 1,
    )
