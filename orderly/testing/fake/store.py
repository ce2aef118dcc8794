"""What a broker keeps on its disk: messages by queue and place, and those that appear later."""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol import properties as names
from orderly.protocol.java_string import java_string_hash
from orderly.protocol.stored_message import (
    MAGIC_V1,
    MAGIC_V2,
    encode_stored_message,
    host_from_text,
)

# --- the log of one queue: messages by offset, and what a pull from an offset gives ---------------
# The statuses are those of DefaultMessageStore.getMessage; their meaning for a reply is
# `pulling`'s.


MAX_MESSAGES = 32  # in one pull, even if more are asked for
MAX_BYTES = 256 * 1024  # in one pull, but always one message
MAX_SCANNED = 800  # messages looked at in one pull: 16000 bytes of a consume queue


class ReadStatus(Enum):
    """How a read ended (GetMessageStatus)."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_RESET = "OFFSET_RESET"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A stored message: bytes, Java's hash of the tag (0: none), when, its place in the whole."""

    data: bytes
    tag_code: int
    store_ms: int
    place: int


@dataclass(frozen=True, slots=True)
class LogRead:
    """What a pull finds, and the offset to go on from."""

    status: ReadStatus
    next_offset: int
    data: bytes = b""


class QueueLog:
    """One queue's messages. Not thread-safe."""

    __slots__ = ("_entries", "_times", "min_offset")

    def __init__(self) -> None:
        self.min_offset = 0
        self._entries: list[LogEntry] = []
        self._times: list[int] = []

    @property
    def max_offset(self) -> int:
        """The offset of the next message."""
        return self.min_offset + len(self._entries)

    def append(self, entry: LogEntry) -> None:
        """Add a message at `max_offset`; never stored before the one ahead of it."""
        self._entries.append(entry)
        self._times.append(entry.store_ms)

    def entry(self, offset: int) -> LogEntry | None:
        """The message at `offset`, if it is still, or already, there."""
        inside = self.min_offset <= offset < self.max_offset
        return self._entries[offset - self.min_offset] if inside else None

    def drop_before(self, offset: int) -> None:
        """Delete what is older than `offset`, as a broker does with old files."""
        count = min(max(offset - self.min_offset, 0), len(self._entries))
        del self._entries[:count], self._times[:count]
        self.min_offset += count

    def drop_from(self, offset: int) -> None:
        """Lose the message at `offset` and all that follow, as a broker may with its machine."""
        kept = max(offset - self.min_offset, 0)
        del self._entries[kept:], self._times[kept:]

    def at_time(self, ms: int, *, upper: bool = False) -> int:
        """The first message stored at or after `ms`; `upper`: the last one at or before it."""
        if upper:
            return self.min_offset + max(bisect_right(self._times, ms) - 1, 0)
        return self.min_offset + bisect_left(self._times, ms)

    def having(self, text: bytes) -> list[LogEntry]:
        """The messages whose bytes have `text` in them, oldest first."""
        return [entry for entry in self._entries if text in entry.data]

    def read(self, offset: int, count: int, codes: Collection[int] | None) -> LogRead:
        """Read up to `count` messages from `offset` on; `codes`: only with these tag codes."""
        end = self.max_offset
        if end == 0:
            return LogRead(ReadStatus.NO_MESSAGE_IN_QUEUE, 0)
        if offset < self.min_offset:
            return LogRead(ReadStatus.OFFSET_TOO_SMALL, self.min_offset)
        if offset == end:
            return LogRead(ReadStatus.OFFSET_OVERFLOW_ONE, offset)
        if offset > end:
            return LogRead(ReadStatus.OFFSET_OVERFLOW_BADLY, end)
        return self._collect(offset, min(count, MAX_MESSAGES), codes)

    def _collect(self, offset: int, count: int, codes: Collection[int] | None) -> LogRead:
        found: list[bytes] = []
        size = 0
        at = offset - self.min_offset
        limit = min(len(self._entries), at + MAX_SCANNED)
        while at < limit:
            entry = self._entries[at]
            if found and (len(found) >= count or size + len(entry.data) > MAX_BYTES):
                break
            if codes is None or entry.tag_code in codes:
                found.append(entry.data)
                size += len(entry.data)
            at += 1
        status = ReadStatus.FOUND if found else ReadStatus.NO_MATCHED_MESSAGE
        return LogRead(status, self.min_offset + at, b"".join(found))


# --- all messages of one broker -------------------------------------------------------------------


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
        """A queue's log, created if missing: some questions do that at a real broker."""
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
        entry = LogEntry(data, java_string_hash(tag) if tag else 0, ms, place)
        log.append(entry)
        self._by_place[place] = data
        self._end += len(data)
        return Placed(offset, f"{self._host_hex}{place:016X}", entry.tag_code)

    def at_place(self, place: int) -> bytes | None:
        """The message at a place of the whole, as it is stored."""
        return self._by_place.get(place)

    def with_id(self, topic: str, message_id: str) -> list[LogEntry]:
        """A topic's messages that have this UNIQ_KEY, in all queues."""
        text = f"{names.UNIQ_KEY}\x01{message_id}\x02".encode()
        logs = [log for (name, _), log in self._logs.items() if name == topic]
        return [entry for log in logs for entry in log.having(text)]

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


# --- messages that are to appear later: the levels of property DELAY (ScheduleMessageService) -----


SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
LEVELS = (
    1,
    5,
    10,
    30,
    60,
    120,
    180,
    240,
    300,
    360,
    420,
    480,
    540,
    600,
    1200,
    1800,
    3600,
    7200,
)  # fmt: skip  seconds of level 1, 2, …


class Delays:
    """What waits for its time; it outlives a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, NewMessage]] = []
        self._numbers = itertools.count()

    def add(self, message: NewMessage, due: float) -> None:
        """Let a message wait until `due`."""
        heapq.heappush(self._heap, (due, next(self._numbers), message))

    def take(self, now: float) -> list[NewMessage]:
        """Take out what is due, the earliest first."""
        ready = []
        while self._heap and self._heap[0][0] <= now:
            ready.append(heapq.heappop(self._heap)[2])
        return ready

    def next_due(self) -> float | None:
        """When the next message is due."""
        return self._heap[0][0] if self._heap else None


def level_of(text: str | None) -> int:
    """The level a DELAY property asks for; 0: none."""
    try:
        level = int(text or "0")
    except ValueError:
        return 0
    return min(max(level, 0), len(LEVELS))
