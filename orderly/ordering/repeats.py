"""Repeated sends: copies of a message that stand behind it in its queue. No handler gets them.

A producer sends "a1" and hears nothing. It sends "a1" again, then "a2". The broker reads both
connections in any order, so a queue can hold "a1 a1 a2", or "a1 a2 a1". No client can take back
what lies in a broker's socket, and a broker takes a copy for a message of its own.

So our producer marks what it sends again: attempts from the second on carry `ORDERLY_ATTEMPT`, and
all attempts have one id, one born time and one body. **A message is a repeat if a copy of it stands
at a lower offset of the same queue, and one of the two is marked.** What nobody marked is never
taken for a repeat: programs send received messages again with the same id, and ids of others can
be equal.

The mark names the born time of its message. A program that sends a received message again with all
its properties keeps the mark, but has another born time: then it counts for nothing.

- A *marked* message is rare. The shell looks whether a copy stands before it (`consumer.copies`).
- An *unmarked* one can only repeat a marked one: its first attempt was late. So the marked messages
  of the last minutes are kept in a book (`SentAgain`), and what comes is compared with them.

That a message repeats another is noted when it comes, and decided when it is its lane's turn: only
if the first copy is finished by then. A broker can lose the end of its log and with it a first copy
that nobody handled. Then the second one is the message.

Knows nothing of time or the network.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from zlib import crc32

from orderly.model import ReceivedMessage
from orderly.protocol.moments import milliseconds_of
from orderly.protocol.properties import attempt_of
from orderly.protocol.state_record import SentAgain

# For so long (seconds of the broker's clock) an earlier attempt may still come: Linux sends what
# was not acknowledged for about 15 minutes (tcp_retries2), and gives it up then.
LATE = 1000.0
MOST = 4096  # marked messages in a book; of more, the oldest are forgotten
NONE_MARKED: Mapping[int, int | None] = MappingProxyType({})


def sent_again(message: ReceivedMessage) -> SentAgain:
    """What is kept of a marked message."""
    checksum = crc32(message.raw_body)
    identity = _identity(message, checksum)
    return SentAgain(message.queue_offset, identity, checksum, int(message.store_time))


def is_marked(message: ReceivedMessage) -> bool:
    """Whether it is a second or later attempt of our producer."""
    return which_attempt(message) > 1


def which_attempt(message: ReceivedMessage) -> int:
    """Which attempt of its send a message is; 1 if it has no mark of its own."""
    return attempt_of(message.properties, milliseconds_of(message.born_time))


def copies_of(
    marked: Iterable[ReceivedMessage], others: Iterable[ReceivedMessage]
) -> dict[int, list[int]]:
    """By the offset of each marked message that has any, where copies stand before it, rising.

    Args:
        marked: of one queue.
        others: of the same queue, in any order. They are looked at once, and none is kept: bodies
            can be large.
    """
    sought: dict[str, list[SentAgain]] = {}
    for message in marked:
        sought.setdefault(message.message_id, []).append(sent_again(message))
    found: dict[int, list[int]] = {}
    for other in others:
        for entry in sought.get(other.message_id, ()):
            before = other.queue_offset < entry.offset
            if before and _identity(other, crc32(other.raw_body)) == entry.identity:
                insort(found.setdefault(entry.offset, []), other.queue_offset)
    return found


def _identity(message: ReceivedMessage, checksum: int) -> int:
    text = f"{message.message_id}\n{message.born_time!r}\n{len(message.raw_body)}\n{checksum}"
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) >> 1


class Repeats:
    """What repeats something in one queue. Not thread-safe.

    Args:
        floor: somebody asked for the messages from there on: by a seek or a reset, or a new group
            begins there. A copy below it was not handled, or is wanted once more.
        book: the marked messages that former owners finished.

    Attributes:
        firsts: by the offset of a message that came, where its first copy stands.
        skipped: how many were left out.
    """

    def __init__(self, floor: int = 0, book: Iterable[SentAgain] = ()) -> None:
        self.floor = floor
        self.firsts: dict[int, int] = {}
        self.skipped = 0
        self._last = -1  # of them
        self._book: dict[int, SentAgain] = {each.identity: each for each in book}
        self._checksums = {each.checksum for each in self._book.values()}

    def arrived(
        self, messages: Sequence[ReceivedMessage], marked: Mapping[int, int | None]
    ) -> None:
        """Note what came.

        Args:
            messages: in the order of their offsets.
            marked: by the offset of each marked one, where a copy stands before it; None: nowhere.
        """
        if not marked and not self._book:
            return
        for message in messages:
            offset = message.queue_offset
            first = marked.get(offset)
            if first is None:
                first = self._in_book(message)
            if first is not None and first >= self.floor:
                self.firsts[offset] = first
                self._last = max(self._last, offset)
            if offset in marked:  # a repeat, too: of its first copy this owner may know nothing
                self._enter(sent_again(message))
        if messages and self._book:
            self._forget(messages[-1].store_time - LATE)

    def _in_book(self, message: ReceivedMessage) -> int | None:
        """Where a marked copy stands before a message; most have another checksum."""
        checksum = crc32(message.raw_body)
        if checksum not in self._checksums:
            return None
        found = self._book.get(_identity(message, checksum))
        return found.offset if found and found.offset < message.queue_offset else None

    def _enter(self, entry: SentAgain) -> None:
        known = self._book.get(entry.identity)
        if known is None or entry.offset < known.offset:
            self._book[entry.identity] = entry
            self._checksums.add(entry.checksum)

    def _forget(self, before: float) -> None:
        """Leave out what was stored before a moment (seconds since the epoch), and too many."""
        oldest = next(iter(self._book.values()))
        if oldest.stored_at < before or len(self._book) > MOST:
            kept = [each for each in self._book.values() if each.stored_at >= before]
            self._keep(kept[-MOST:])

    def _keep(self, entries: Iterable[SentAgain]) -> None:
        self._book = {each.identity: each for each in entries}
        self._checksums = {each.checksum for each in self._book.values()}

    def lost(self, offsets: Collection[int]) -> None:
        """The broker no longer has these messages, and nobody handled them: they are no copies."""
        self.firsts = {at: first for at, first in self.firsts.items() if first not in offsets}
        if self._book:
            self._keep([each for each in self._book.values() if each.offset not in offsets])

    def passed(self, offset: int) -> None:
        """All below an offset is finished."""
        if self._last < offset:
            self.firsts.clear()

    @property
    def book(self) -> tuple[SentAgain, ...]:
        """The marked messages that came, of each send the first; finished or not, oldest first."""
        return tuple(self._book.values())
