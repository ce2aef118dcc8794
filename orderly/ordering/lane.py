"""One lane: the messages of one key in one queue, of which one batch is handled at a time.

With order by queue all messages of the queue are in one lane. A lane that gets far behind, or that
waits while many others do, keeps only the offsets of its later messages; their bodies are pulled
again when it gets there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Any

from orderly.model import ReceivedMessage
from orderly.ordering.process_queue import ProcessQueue


class Lane:
    """Messages of one key. Changed by `Lanes` only.

    Attributes:
        key: of all its messages; None for those without one.
        messages: with bodies; all below `later`.
        later: offsets of the messages whose bodies are not kept, rising.
        tried: of those of them that were tried, how often.
        stored: when the first of them was stored (seconds since 1970); None: not known.
        errands: what else shall run here, between two batches.
        since: when the batch in work was taken (seconds); None: nothing is in work.
        wake_at: until then it is suspended (seconds); None: it is not.
        due: its bodies need not be asked for before (seconds), after it was suspended.
        hunger: when its bodies are to be asked for (seconds), and `missed`; None: it can go on, or
            may not.
        again: bodies that were pulled again for it, until it has handed them out.
        queued: whether it stands in the line of lanes that can go on.
        low: its lowest unfinished offset as `Lanes` has noted it.
        missed: the same of the first whose body is not kept.
    """

    __slots__ = (
        "again",
        "due",
        "errands",
        "hunger",
        "key",
        "later",
        "low",
        "messages",
        "missed",
        "queued",
        "since",
        "stored",
        "tried",
        "wake_at",
    )

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.messages = ProcessQueue()
        self.later: deque[int] = deque()
        self.tried: dict[int, int] = {}
        self.stored: float | None = None
        self.errands: list[Any] = []
        self.since: float | None = None
        self.wake_at: float | None = None
        self.due = -inf
        self.hunger: tuple[float, int] | None = None
        self.again = 0
        self.queued = False
        self.low: int | None = None
        self.missed: int | None = None

    @property
    def lowest(self) -> int | None:
        """The lowest unfinished offset, or None if all is finished."""
        head = self.messages.head
        if head is not None:
            return head.queue_offset
        return self.later[0] if self.later else None

    @property
    def unfinished(self) -> int:
        """How many messages it has, with and without their bodies."""
        return self.messages.count + len(self.later)

    @property
    def keeps_all(self) -> bool:
        """True if a handler has all of them, and answered that it keeps them (manual commit)."""
        return self.since is None and not self.messages.pending and not self.later

    @property
    def following(self) -> int | None:
        """The offset of the message that is handed out next, or None."""
        pending = self.messages.first_pending
        if pending is not None:
            return pending.queue_offset
        return self.later[0] if self.later else None

    @property
    def attempts(self) -> int:
        """How often its lowest unfinished message was tried."""
        head = self.messages.head
        if head is not None:
            return head.reconsume_times
        return self.tried.get(self.later[0], 0) if self.later else 0

    @property
    def oldest(self) -> float | None:
        """When its lowest unfinished message was stored (seconds since 1970); None: not known."""
        head = self.messages.head
        return self.stored if head is None else head.store_time

    def defer(self, message: ReceivedMessage) -> None:
        """Keep only the offset of a message that came."""
        if not self.later:
            self.stored = message.store_time
        self.later.append(message.queue_offset)

    def drop_body(self) -> ReceivedMessage:
        """Keep only the offset of its last pending message, and how often that was tried."""
        message = self.messages.drop_last()
        self.later.appendleft(message.queue_offset)
        self.stored = message.store_time
        if message.reconsume_times:
            self.tried[message.queue_offset] = message.reconsume_times
        return message

    def take_body(self, message: ReceivedMessage) -> None:
        """Take in what is first in `later`."""
        tried = self._leave_later()
        again = message if tried is None else message.changed(reconsume_times=tried)
        self.messages.put((again,))

    def lose_body(self) -> None:
        """Forget what is first in `later`: the broker no longer has it."""
        self._leave_later()

    def _leave_later(self) -> int | None:
        self.stored = None
        return self.tried.pop(self.later.popleft(), None)

    @property
    def ready(self) -> bool:
        """True if a batch, or an errand, can be taken now."""
        free = self.since is None and self.wake_at is None
        return free and (self.messages.pending > 0 or bool(self.errands))

    @property
    def hungry(self) -> bool:
        """True if it could go on, had it the bodies of its later messages."""
        free = self.since is None and self.wake_at is None
        return free and self.messages.pending == 0 and bool(self.later)

    @property
    def empty(self) -> bool:
        """True if nothing is left of it, and nothing that comes would have to wait."""
        held = self.messages.count > 0 or self.later or self.errands
        return not held and self.since is None and self.wake_at is None


@dataclass(slots=True, eq=False)  # not frozen: three times as fast to make, once a message
class Batch:
    """What was taken from a lane: messages for the handler, or one errand instead.

    Attributes:
        lane: where from; nothing else is taken from it until the batch is finished.
        messages: in order; empty with an errand.
        errand: something else that runs in the lane's turn.
        done: how many of the messages, from the first, its run has handled with plain success
            while the others are still to be handed out. Written by that run, without a lock.
    """

    lane: Lane
    messages: tuple[ReceivedMessage, ...]
    errand: Any = None
    done: int = 0

    def narrow(self, kept: int) -> None:
        """Be about the `kept` messages after those that are done, and no others."""
        self.messages = self.messages[self.done : self.done + kept]
        self.done = 0

    @property
    def key(self) -> Hashable:
        """The key all its messages have."""
        return self.lane.key
