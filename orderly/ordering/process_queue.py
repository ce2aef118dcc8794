"""The process queue: messages of one order, pending ones and those in hand.

Java: ProcessQueue (its two tree maps; pulls of one queue arrive in offset order, so two deques do
the same work without a tree).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from orderly.model import ReceivedMessage, UndecodableMessage

_NONE: deque[ReceivedMessage] = deque()  # most keys that wait have no body; a deque takes 760 bytes


class ProcessQueue:
    """Pending and in-hand messages of one order, both in rising offset order.

    Invariant: every in-hand offset is below every pending one. `count` and `size` (bytes
    of memory) cover both, because both must fit in memory.
    """

    __slots__ = ("_in_hand", "_last", "_pending", "count", "size")

    def __init__(self) -> None:
        self._pending = _NONE  # it is never changed: see `_own_pending`
        self._in_hand: list[ReceivedMessage] = []  # few; a deque takes 700 bytes, a key has one
        self._last = -1
        self.count = 0
        self.size = 0

    @property
    def _own_pending(self) -> deque[ReceivedMessage]:
        """What is pending, to be added to."""
        if self._pending is _NONE:
            self._pending = deque()
        return self._pending

    @property
    def pending(self) -> int:
        """Messages waiting to be taken."""
        return len(self._pending)

    @property
    def pending_size(self) -> int:
        """Bytes of memory of the messages waiting to be taken."""
        return self.size - sum([message.held_size for message in self._in_hand])

    @property
    def in_hand(self) -> int:
        """Messages taken and not yet committed."""
        return len(self._in_hand)

    @property
    def taken(self) -> tuple[ReceivedMessage, ...]:
        """The messages taken and not yet committed, in order."""
        return tuple(self._in_hand)

    @property
    def first_pending(self) -> ReceivedMessage | None:
        """The lowest message waiting to be taken, or None."""
        return self._pending[0] if self._pending else None

    @property
    def head(self) -> ReceivedMessage | None:
        """The lowest uncommitted message, or None."""
        if self._in_hand:
            return self._in_hand[0]
        return self._pending[0] if self._pending else None

    def put(self, messages: Sequence[ReceivedMessage]) -> int:
        """Add pulled messages; returns how many were new.

        What is not above the last offset seen is a repeated pull reply and is left out.
        """
        new = [message for message in messages if message.queue_offset > self._last]
        if new:
            self._last = new[-1].queue_offset
            self._own_pending.extend(new)
            self.count += len(new)
            self.size += sum([message.held_size for message in new])
        return len(new)

    def append(self, message: ReceivedMessage) -> None:
        """Add one message, above the last offset seen."""
        self._last = message.queue_offset
        self._own_pending.append(message)
        self.count += 1
        self.size += message.held_size

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Move up to `limit` of the lowest pending messages into the hand and return them.

        One whose body cannot be read comes alone: those before it are not to fail with it.
        """
        pending = self._pending
        batch: list[ReceivedMessage] = []
        while pending and len(batch) < limit:
            alone = pending[0].__class__ is UndecodableMessage
            if alone and batch:
                break
            batch.append(pending.popleft())
            if alone:
                break
        self._in_hand.extend(batch)
        return batch

    def commit(self, keep: int = 0) -> None:
        """Forget all in-hand messages but the last `keep`: they are done."""
        done = len(self._in_hand) - keep
        for message in self._in_hand[:done]:
            self.size -= message.held_size
        self.count -= done
        del self._in_hand[:done]

    def rollback(self, finished: Collection[int] = ()) -> None:
        """Make all in-hand messages pending again, in order; attempts are not counted (as Java).

        Args:
            finished: queue offsets of those that are done: they are forgotten.
        """
        for message in reversed(self._in_hand):
            if message.queue_offset in finished:
                self.count -= 1
                self.size -= message.held_size
            else:
                self._own_pending.appendleft(message)
        self._in_hand.clear()

    def put_back(
        self,
        batch: Sequence[ReceivedMessage],
        finished: Collection[int] = (),
        untried: Collection[int] = (),
    ) -> None:
        """Make `batch`, the messages taken last, pending again with one more attempt each.

        Earlier in-hand messages (manual commit) stay in hand. Java: makeMessageToConsumeAgain.

        Args:
            batch: what the last `take` returned.
            finished: queue offsets of those that are done: they are forgotten, and so never run
                again because of the others (Java repeats them).
            untried: queue offsets of those that no attempt is counted for.
        """
        for message in reversed(batch):
            taken = self._in_hand.pop()
            assert taken.queue_offset == message.queue_offset, "put_back of what was not taken last"
            if taken.queue_offset in finished:
                self.count -= 1
                self.size -= taken.held_size
            else:
                counted = taken.queue_offset not in untried
                again = taken.changed(reconsume_times=taken.reconsume_times + counted)
                self._own_pending.appendleft(again)

    def untake(self, count: int) -> None:
        """Make the `count` messages taken last pending again; no attempt is counted."""
        for _ in range(count):
            self._own_pending.appendleft(self._in_hand.pop())

    def drop_last(self) -> ReceivedMessage:
        """Let go of the last pending message: its body is pulled again when its turn comes."""
        message = self._pending.pop()
        self._last = message.queue_offset - 1
        self.count -= 1
        self.size -= message.held_size
        return message

    def offsets(self) -> Iterator[int]:
        """The offsets of all, rising."""
        return (message.queue_offset for message in chain(self._in_hand, self._pending))

    @property
    def spans(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """First and last offset of the pending and of the in-hand messages, or None each."""
        return _span(self._pending), _span(self._in_hand)


def _span(messages: Sequence[ReceivedMessage]) -> tuple[int, int] | None:
    return (messages[0].queue_offset, messages[-1].queue_offset) if messages else None
