"""All messages of one broker: a log for each queue, and each message's place in the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol import properties as names
from orderly.protocol.hosts import host_from_text
from orderly.protocol.java_string import java_string_hash
from orderly.protocol.stored_message import MAGIC_V1, MAGIC_V2, encode_stored_message
from orderly.testing.fake.queue_log import Entry, QueueLog

_SHORT_TOPIC = 127  # bytes; longer ones need the second layout


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message on its way into a queue."""

    topic: str
    queue_id: int
    body: bytes
    properties: Mapping[str, str]
    born_time: float
    born_host: str
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a message was stored."""

    queue_offset: int
    offset_id: str
    tag_code: int


class Store:
    """A broker's messages; they outlive its restarts. Not thread-safe."""

    def __init__(self, broker_name: str, address: str) -> None:
        self._broker_name = broker_name
        self._address = address
        self._host_hex = host_from_text(address).hex().upper()
        self._logs: dict[tuple[str, int], QueueLog] = {}
        self._by_place: dict[int, bytes] = {}
        self._end = 0

    @property
    def count(self) -> int:
        """How many messages were ever stored."""
        return len(self._by_place)

    def log(self, topic: str, queue_id: int) -> QueueLog:
        """A queue's log; an empty one for a queue that has, or is, nothing."""
        return self._logs.get((topic, queue_id)) or QueueLog()

    def open_log(self, topic: str, queue_id: int) -> QueueLog:
        """A queue's log, made if there is none: some questions do that at a real broker."""
        return self._logs.setdefault((topic, queue_id), QueueLog())

    def has_log(self, topic: str, queue_id: int) -> bool:
        """Whether there is a log, maybe an empty one."""
        return (topic, queue_id) in self._logs

    def put(self, message: NewMessage, now: float) -> Placed:
        """Store a message at the end of its queue.

        Raises:
            ProtocolError, InvalidMessage: properties or a topic that cannot be stored.
        """
        log = self.open_log(message.topic, message.queue_id)
        offset, place = log.max_offset, self._end
        long_topic = len(message.topic.encode()) > _SHORT_TOPIC
        ms = int(now * 1000)
        data = encode_stored_message(
            self._as_received(message, offset, place, ms),
            magic=MAGIC_V2 if long_topic else MAGIC_V1,
        )
        tag = message.properties.get(names.TAGS)
        entry = Entry(data, java_string_hash(tag) if tag else 0, ms, place)
        log.append(entry)
        self._by_place[place] = data
        self._end += len(data)
        return Placed(offset, f"{self._host_hex}{place:016X}", entry.tag_code)

    def at_place(self, place: int) -> bytes | None:
        """The message at a place of the whole, as it is stored."""
        return self._by_place.get(place)

    def forget(self, topic: str) -> None:
        """Delete a topic's queues."""
        for key in [key for key in self._logs if key[0] == topic]:
            del self._logs[key]

    def _as_received(
        self, message: NewMessage, offset: int, place: int, ms: int
    ) -> ReceivedMessage:
        return ReceivedMessage(
            queue=MessageQueue(message.topic, self._broker_name, message.queue_id),
            queue_offset=offset,
            body=message.body,
            properties=message.properties,
            message_id="",
            offset_message_id="",
            born_time=message.born_time,
            store_time=ms / 1000,
            born_host=message.born_host,
            store_host=self._address,
            reconsume_times=message.reconsume_times,
            flag=message.flag,
            sys_flag=message.sys_flag,
            physical_offset=place,
            stored_size=0,
        )
