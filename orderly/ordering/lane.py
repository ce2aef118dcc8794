"""One lane: the unfinished messages of one key, the tasks that wait for its turn, and its batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

from orderly.model import ReceivedMessage
from orderly.ordering.process_queue import ProcessQueue


class Turn(NamedTuple):
    """A turn of a lane that somebody wants for other work, between two batches.

    It waits for no permit and no suspension, and goes before messages. An errand calls no handler:
    it needs no worker, and the program may have paused the key.

    Attributes:
        lane_task: what is done then.
        errand: it calls no handler.
        with_bodies: an errand that is about the lane's messages, and waits until bodies are here.
    """

    lane_task: Any
    errand: bool = False
    with_bodies: bool = False


NO_TURNS: Sequence[Turn] = ()
NONE_LATER: deque[int] = deque()  # most lanes keep all bodies, and a deque takes 760 bytes


class Lane:
    """Messages of one key. Changed by `Lanes` only.

    Attributes:
        key: of all its messages; None for those without one.
        messages: with bodies; all below `later`.
        later: offsets of the messages whose bodies are not kept, rising.
        tried: of those of them that were tried, how often.
        stored: when the first of them was stored (seconds since 1970); None: not known.
        turns: that are wanted, in their order.
        since: when the batch in work was taken (seconds); None: nothing is in work.
        wake_at: until then it is suspended (seconds), without end while the program holds it back
            and nothing of it is in work; None: it is not.
        paced: it is suspended because its key's rate is limited, not after a failure.
        paused: the program has paused the key.
        resumes_at: of one that is paused, until when it was suspended before (seconds), or None.
        due: its bodies need not be asked for before (seconds), after it was suspended.
        refill_due: when its bodies are to be asked for (seconds), and `missed`; None: it can go
            on, or may not.
        again: bodies that were pulled again for it, until it has handed them out.
        alone_to: messages up to this offset are handed out one at a time; -1: none are.
        line: of lanes that can go on, in which it is, and `place` says since when; None: in none.
        low: its lowest unfinished offset as `Lanes` has noted it.
        missed: the same of the first whose body is not kept.
        set_back: the same of how many messages it has unfinished, while the program holds it back,
            and of how many of these only the offset is kept.
    """

    __slots__ = (
        "again",
        "alone_to",
        "due",
        "key",
        "later",
        "line",
        "low",
        "messages",
        "missed",
        "paced",
        "paused",
        "place",
        "refill_due",
        "resumes_at",
        "set_back",
        "since",
        "stored",
        "tried",
        "turns",
        "wake_at",
    )

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.messages = ProcessQueue()
        self.later = NONE_LATER  # it is never changed: see `_own_later`
        self.tried: dict[int, int] | None = None  # few have one
        self.stored: float | None = None
        self.turns: Sequence[Turn] = NO_TURNS  # few lanes ever have one
        self.since: float | None = None
        self.wake_at: float | None = None
        self.paced = False
        self.paused = False
        self.resumes_at: float | None = None
        self.due = -inf
        self.refill_due: tuple[float, int] | None = None
        self.again = 0
        self.alone_to = -1
        self.line: deque[Lane] | None = None
        self.place = 0
        self.low: int | None = None
        self.missed: int | None = None
        self.set_back = (0, 0)

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
        return self.tried.get(self.later[0], 0) if self.tried and self.later else 0

    @property
    def oldest(self) -> float | None:
        """When its lowest unfinished message was stored (seconds since 1970); None: not known."""
        head = self.messages.head
        return self.stored if head is None else head.store_time

    def defer(self, message: ReceivedMessage) -> None:
        """Keep only the offset of a message that came."""
        if not self.later:
            self.stored = message.store_time
        self._own_later.append(message.queue_offset)

    @property
    def _own_later(self) -> deque[int]:
        """The offsets without bodies, to be added to."""
        if self.later is NONE_LATER:
            self.later = deque()
        return self.later

    def drop_body(self) -> ReceivedMessage:
        """Keep only the offset of its last pending message, and how often that was tried."""
        message = self.messages.drop_last()
        self._own_later.appendleft(message.queue_offset)
        self.stored = message.store_time
        if message.reconsume_times:
            self.tried = self.tried or {}
            self.tried[message.queue_offset] = message.reconsume_times
        return message

    def take_body(self, message: ReceivedMessage) -> None:
        """Take in what is first in `later`."""
        tried = self._leave_later()
        again = message if tried is None else message.changed(reconsume_times=tried)
        self.messages.append(again)

    def lose_body(self) -> None:
        """Forget what is first in `later`: the broker no longer has it."""
        self._leave_later()

    def _leave_later(self) -> int | None:
        self.stored = None
        offset = self.later.popleft()
        return self.tried.pop(offset, None) if self.tried else None

    @property
    def ready(self) -> bool:
        """True if messages can be taken now."""
        return self.since is None and self.wake_at is None and self.messages.pending > 0

    @property
    def halted(self) -> bool:
        """True while the program holds it back, and nothing of it is in work."""
        return self.wake_at == inf

    @property
    def wants_bodies(self) -> bool:
        """True if an errand is about its messages."""
        return bool(self.turns) and self.turns[0].with_bodies

    @property
    def needs_refill(self) -> bool:
        """True if it could go on, had it the bodies of its later messages."""
        if self.since is not None or self.messages.pending or not self.later:
            return False
        return self.wake_at is None or self.wants_bodies

    @property
    def empty(self) -> bool:
        """True if nothing is left of it, and nothing that comes would have to wait."""
        held = self.messages.count > 0 or self.later or self.turns
        anew = self.paused and self.resumes_at is None  # made anew it would wait just so
        waits = self.wake_at is not None and not anew
        return not held and self.since is None and not waits


@dataclass(slots=True, eq=False)  # not frozen: three times as fast to make, once a message
class Batch:
    """What was taken from a lane: messages for the handler, or one lane task instead.

    Attributes:
        lane: where from; nothing else is taken from it until the batch is finished.
        messages: in order; empty with a lane task, until an errand takes them along.
        lane_task: something else that runs in the lane's turn.
        errand: it calls no handler.
        began: when the last call with its messages began (seconds), before that when they were
            taken; None: no handler gets them. Written by its run, without a lock.
        done: how many of the messages, from the first, its run has handled with plain success
            while the others are still to be handed out. Written by that run, without a lock.
        repeats: the offset of the copy before it that its one message repeats (`repeats`): no
            handler gets it; None: it repeats nothing.
    """

    lane: Lane
    messages: tuple[ReceivedMessage, ...]
    lane_task: Any = None
    errand: bool = False
    began: float | None = None
    done: int = 0
    repeats: int | None = None

    def narrow(self, kept: int) -> None:
        """Be about the `kept` messages after those that are done, and no others."""
        self.messages = self.messages[self.done : self.done + kept]
        self.done = 0

    @property
    def key(self) -> Hashable:
        """The key all its messages have."""
        return self.lane.key
