"""The log of one queue: messages by offset, and what a pull from an offset gives.

The statuses are those of DefaultMessageStore.getMessage; their meaning for a reply is `pulling`'s.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

MAX_MESSAGES = 32  # in one pull, whatever is asked for
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
class Entry:
    """A stored message: bytes, Java's hash of the tag (0: none), when, its place in the whole."""

    data: bytes
    tag_code: int
    store_ms: int
    place: int


@dataclass(frozen=True, slots=True)
class Read:
    """What a pull finds, and the offset to go on from."""

    status: ReadStatus
    next_offset: int
    data: bytes = b""


class QueueLog:
    """One queue's messages. Not thread-safe."""

    __slots__ = ("_entries", "_times", "min_offset")

    def __init__(self) -> None:
        self.min_offset = 0
        self._entries: list[Entry] = []
        self._times: list[int] = []

    @property
    def max_offset(self) -> int:
        """The offset of the next message."""
        return self.min_offset + len(self._entries)

    def append(self, entry: Entry) -> None:
        """Add a message at `max_offset`; never stored before the one ahead of it."""
        self._entries.append(entry)
        self._times.append(entry.store_ms)

    def entry(self, offset: int) -> Entry | None:
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

    def read(self, offset: int, count: int, codes: Collection[int] | None) -> Read:
        """Read up to `count` messages from `offset` on; `codes`: only with these tag codes."""
        end = self.max_offset
        if end == 0:
            return Read(ReadStatus.NO_MESSAGE_IN_QUEUE, 0)
        if offset < self.min_offset:
            return Read(ReadStatus.OFFSET_TOO_SMALL, self.min_offset)
        if offset == end:
            return Read(ReadStatus.OFFSET_OVERFLOW_ONE, offset)
        if offset > end:
            return Read(ReadStatus.OFFSET_OVERFLOW_BADLY, end)
        return self._collect(offset, min(count, MAX_MESSAGES), codes)

    def _collect(self, offset: int, count: int, codes: Collection[int] | None) -> Read:
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
        return Read(status, self.min_offset + at, b"".join(found))
