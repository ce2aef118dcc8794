"""The queues in which a group may have parked keys, read as an onlooker.

No lock, and not as a member. What counts is what the queue's state record says, as for its owner:
a message in the park topic is parked only if its key is on record and its source offset is not
settled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from orderly.client import Client
from orderly.client.dialogues import append_parked, performer
from orderly.errors import ConfigError, OrderlyError, ProtocolError, RemotingError, RouteError
from orderly.foreign_text import shell_word
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.broker_calls import (
    Dialogue,
    MaxOffset,
    MinOffset,
    ParkedRead,
    ReadParked,
    converse,
)
from orderly.ordering.parking import KeyIndex, ParkedPlace, ParkingState, parked_of, rebuild
from orderly.ordering.state_records import StateReader
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.park_record import Parked, ParkMessage
from orderly.protocol.parked_key import Key, ParkedKey, key_tag
from orderly.protocol.record_format import Seal


class StoredCopy(NamedTuple):
    """What is known of a copy in the park queue: seconds since the epoch, bytes, failed tries."""

    at: float
    size: int
    attempts: int


@dataclass(slots=True)
class KeyFound:
    """What the park queue holds of one key.

    Attributes:
        on_record: what the state says of it.
        index: its messages that are not settled.
        stored: of every copy, by position.
        cut: some of what lay where they begin is deleted or damaged.
    """

    on_record: ParkedKey
    index: KeyIndex
    stored: dict[int, StoredCopy] = field(default_factory=dict)
    cut: bool = False

    def note(self, parked: Parked) -> None:
        """Take in a message of the key."""
        self.index.add(parked)
        self.stored[parked.position] = StoredCopy(
            parked.stored_at, parked.size, parked.details.attempts
        )

    @property
    def gone(self) -> int:
        """How many of its messages may be gone: 0 where nothing was seen to be.

        The number on record alone proves nothing.
        """
        return max(0, self.on_record.messages - len(self.index)) if self.cut else 0

    @property
    def places(self) -> list[ParkedPlace]:
        """Its messages, in the order of the source queue; of each the copy that counts."""
        return self.index.lowest(len(self.index))


class ParkedQueue:
    """A source queue with its state and its park queue.

    Not thread-safe; every method blocks, and raises OrderlyError if a broker does not answer.

    Args:
        client: of the cluster.
        group: the consumer group, as the broker names it.
        queue: the source queue.

    Attributes:
        client, group, queue: as given.
        state_queue, park_queue: on the same broker, with the same number.
        perform: answers the group's calls of dialogues.
    """

    def __init__(self, client: Client, group: str, queue: MessageQueue) -> None:
        self.client = client
        self.group = group
        self.queue = queue
        self.state_queue = replace(queue, topic=state_topic(group, queue.topic))
        self.park_queue = replace(queue, topic=park_topic(group, queue.topic))
        secrets = client.config.record_secrets
        self.perform = performer(group, client.brokers, secrets)
        self._seal = Seal(group, secrets)

    def on_record(self) -> ParkingState:
        """The keys that are parked.

        Raises:
            OrderlyError: it cannot be known: the record is damaged, or of a newer release.
        """
        return converse(_on_record(self.state_queue, self.park_queue), self.perform)

    def find(self, keys: Collection[ParkedKey]) -> dict[Key, KeyFound]:
        """Look for the messages of some keys, in one pass.

        Raises:
            NotAvailableYet: a newer release parked messages there.
        """
        found = {key.key: KeyFound(key, KeyIndex(key.key, key.next)) for key in keys}
        if not keys:
            return found
        tag = key_tag(next(iter(keys)).key) if len(keys) == 1 else None
        first, end = (self.perform(ask(self.park_queue)) for ask in (MinOffset, MaxOffset))
        damaged: set[str | None] = set()
        for message in self._scan(min(key.at for key in keys), end, tag):
            try:
                parked = parked_of(message, self.queue)
            except ProtocolError:  # nobody's, or damaged: a key's tag is all that is left of it
                damaged.add(message.tags)
                continue
            if parked is not None and parked.key in found:
                found[parked.key].note(parked)
        for each in found.values():
            on_record = each.on_record
            each.cut = not first <= on_record.at < end or key_tag(on_record.key) in damaged
        return found

    def messages(
        self, key: KeyFound, *, stored_before: float = math.inf
    ) -> Iterator[ReceivedMessage]:
        """A key's messages as they are stored in the park queue, in the order of their source.

        Args:
            key: as `find` found it.
            stored_before: only these; seconds since the epoch.

        Raises:
            OrderlyError: one is gone since it was found: the broker has deleted it.
        """
        tag = key_tag(key.on_record.key)
        block: dict[int, ReceivedMessage] = {}
        for _, position in key.places:
            if key.stored[position].at >= stored_before:
                continue
            if position not in block:
                read = self._read(position, tag)
                block = {message.queue_offset: message for message in read.messages}
            if position not in block:
                text = f"the parked message at {position} of {self.park_queue} is gone by now"
                raise OrderlyError(f"{text}: the broker deletes by age")
            yield block[position]

    def append(self, message: ParkMessage) -> int:
        """Store a message in the park queue; returns its position. It may be stored on an error."""
        brokers = self.client.brokers
        return append_parked(brokers, self.group, self._seal, self.park_queue, message)

    def _scan(self, at: int, end: int, tag: str | None) -> Iterator[ReceivedMessage]:
        """From a position to the end as it was."""
        while at < end:
            read = self._read(at, tag)
            yield from (message for message in read.messages if message.queue_offset < end)
            if read.next_offset <= at:
                text = f"{self.park_queue} cannot be read beyond position {at}"
                raise OrderlyError(f"{text}; look at its broker")
            at = read.next_offset

    def _read(self, at: int, tag: str | None) -> ParkedRead:
        read: ParkedRead = self.perform(ReadParked(self.park_queue, at, tag))
        return read


def _on_record(state_queue: MessageQueue, park_queue: MessageQueue) -> Dialogue[ParkingState]:
    """As the next owner would read it."""
    end: int = yield MaxOffset(state_queue)
    found, damaged = yield from StateReader(state_queue, end).newest(before=end)
    if damaged:
        raise OrderlyError(
            f"a record of {state_queue} is damaged, so the parked keys are not known; the queue's"
            " next owner finds the damage and writes the record again"
        )
    if found is None:  # never written, or deleted by age
        rebuilt = yield from rebuild(park_queue)
        return rebuilt.kept
    return found.kept


# --- all queues of a group: found, read one by one, searched for a key ----------------------------


T = TypeVar("T")
Unknown = tuple[tuple[MessageQueue, OrderlyError], ...]
"""Source queues that could not be read, and why."""


class NotParked(ConfigError):
    """A key that is not parked, or not any more."""


class ParkedQueues:
    """Only those on brokers that the name server lists: nobody else knows of the others.

    Not thread-safe; every method blocks, and raises OrderlyError if no name server answers, or
    none of the group's park topics is listed.

    Args:
        client: of the cluster.
        group: the consumer group, as the broker names it.
        topic: only of this source topic; None: of all.
    """

    def __init__(self, client: Client, group: str, topic: str | None) -> None:
        self._client = client
        self._group = group
        self._topic = topic

    def holders(self, key: Key) -> list[tuple[ParkedQueue, ParkedKey]]:
        """Where a key is parked."""
        found, unknown = self.each(lambda queue: _held(queue, key))
        holders = [holder for holder in found if holder is not None]
        if not holders:
            raise _not_parked(self._group, key, unknown)
        topics = sorted({queue.queue.topic for queue, _ in holders})
        if len(topics) > 1:
            raise ConfigError(
                f"key {key!r} is parked in several topics: {', '.join(topics)}; name one (--topic)"
            )
        return holders

    def each(self, read: Callable[[ParkedQueue], T]) -> tuple[list[T], Unknown]:
        """Read every queue; a broker that did not answer is not asked again."""
        found: list[T] = []
        unknown: list[tuple[MessageQueue, OrderlyError]] = []
        silent: dict[str, OrderlyError] = {}
        for queue in self.all():
            name = queue.queue.broker_name
            try:
                if name in silent:
                    raise silent[name]
                found.append(read(queue))
            except OrderlyError as error:
                unknown.append((queue.queue, error))
                if isinstance(error, RemotingError):
                    silent[name] = error
        return found, tuple(unknown)

    def all(self) -> list[ParkedQueue]:
        """Every queue of the group's park topics, and so every source queue that ever had a key.

        Asks a name server each time: it may not have listed all brokers when it was last asked.
        """
        return [
            ParkedQueue(self._client, self._group, replace(queue, topic=topic))
            for topic in self._topics()
            for queue in self._client.routes.refresh(park_topic(self._group, topic)).read_queues()
        ]

    def _topics(self) -> list[str]:
        """The source topics for which the group has a park topic."""
        present = frozenset(self._client.admin.topics())
        wanted = present if self._topic is None else (self._topic,)
        found = [topic for topic in wanted if park_topic(self._group, topic) in present]
        if not found:  # no broker that is listed knows; that is not the same as "nothing is parked"
            of_topic = "" if self._topic is None else f" for {self._topic}"
            raise RouteError(
                f"the name server lists no park topic of group {self._group}{of_topic}: the name is"
                " wrong, no member has consumed with order='key', or its brokers are down"
            )
        return sorted(found)


def _held(queue: ParkedQueue, key: Key) -> tuple[ParkedQueue, ParkedKey] | None:
    parked = next((found for found in queue.on_record().parked if found.key == key), None)
    return None if parked is None else (queue, parked)


def _not_parked(group: str, key: Key, unknown: Unknown) -> OrderlyError:
    if unknown:
        queue, error = unknown[0]
        return OrderlyError(
            f"it is not known whether key {key!r} is parked in group {group}, because {queue}"
            f" could not be read ({error}); nothing was done"
        )
    return NotParked(
        f"key {key!r} is not parked in group {group}: `orderly parked list {shell_word(group)}`"
        " shows the parked keys; if the key is a number, give --int"
    )
