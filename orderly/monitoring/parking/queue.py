"""One queue's parked keys and their messages, read as an onlooker: no lock, and not as a member.

What counts is what the queue's state record says, as for its owner: a message in the park topic is
parked only if its key is on record and its source offset is not settled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from orderly.client import Client
from orderly.consumer.owning.perform import performer
from orderly.errors import OrderlyError, ProtocolError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.calls import Dialogue, MaxOffset, MinOffset, ParkedRead, ReadParked, converse
from orderly.ordering.parking.index import KeyIndex, Place
from orderly.ordering.parking.keys import Kept, Key, ParkedKey, key_tag
from orderly.ordering.parking.rebuild import rebuild
from orderly.ordering.parking.telling_apart import parked_of
from orderly.ordering.state.history import History
from orderly.ordering.state.topic import park_topic, state_topic
from orderly.protocol.park_record import PARKED, Parked, ParkMessage, park_request
from orderly.protocol.seal import Seal


class Stored(NamedTuple):
    """What is known of a copy in the park queue: seconds since the epoch, and bytes."""

    at: float
    size: int


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
    stored: dict[int, Stored] = field(default_factory=dict)
    cut: bool = False

    def note(self, parked: Parked) -> None:
        """Take in a message of the key."""
        self.index.add(parked)
        self.stored[parked.position] = Stored(parked.stored_at, parked.size)

    @property
    def gone(self) -> int:
        """How many of its messages may be gone: 0 where nothing was seen to be.

        The number on record alone proves nothing.
        """
        return max(0, self.on_record.messages - len(self.index)) if self.cut else 0

    @property
    def places(self) -> list[Place]:
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

    def on_record(self) -> Kept:
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
        newest = None
        if self._seal.signs and PARKED not in message.properties:
            newest = self.perform(MaxOffset(self.park_queue)) - 1
        request = park_request(
            self.group, self.park_queue, message, time.time(), seal=self._seal, newest=newest
        )
        return self.client.brokers.send_now(self.park_queue, request).queue_offset

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


def _on_record(state_queue: MessageQueue, park_queue: MessageQueue) -> Dialogue[Kept]:
    """As the next owner would read it."""
    end: int = yield MaxOffset(state_queue)
    found, damaged = yield from History(state_queue, end).newest(before=end)
    if damaged:
        raise OrderlyError(
            f"a record of {state_queue} is damaged, so what is parked is not known; the queue's"
            " next owner finds it out and writes it anew"
        )
    if found is None:  # never written, or deleted by age
        rebuilt = yield from rebuild(park_queue)
        return rebuilt.kept
    return found.kept
