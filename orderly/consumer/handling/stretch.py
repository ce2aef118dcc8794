"""Several quick calls of one lane between one taking of the queue's lock and the next.

Taking and finishing a message costs as much as two calls of a handler that does next to nothing. So
where the last calls were quick and went well, a run takes messages for several calls at once, hands
them out call by call, and finishes them together. What was handled counts for whoever takes the
queue's lock meanwhile, as if it were finished (`QueueLock`). The first call that is slow, or that
answers anything but a plain success, ends the stretch; what was not handed out goes back untried.

So a stretch never commits what a handler kept (manual commit). Only plain successes are counted,
and such a one (SUCCESS under auto-commit, COMMIT under manual commit) commits by itself all that
its lane has in hand. A call that keeps ends the stretch, and a lane with something in hand takes
one call's messages (`Lanes.take`) until it is committed or rolled back.

How many calls is learned by the queue, not by its lanes: it tells how quick the handler is and how
it answers, and a lane is forgotten each time it has nothing left. A wrong number costs time, never
a message: any lane may have taken too much, and what it was not asked for goes back. Handlers in
worker processes have no stretches: what comes back from a process always names messages
(`ConsumeContext.names_some`), and a call of it costs far more than the lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from orderly.consumer.handling.calling import Called
from orderly.consumer.session import Held, now
from orderly.model import ReceivedMessage
from orderly.ordering.lane import Batch
from orderly.ordering.results import PLAIN_SUCCESS

MOST_CALLS = 16
QUICK = 0.001  # seconds that the calls of a stretch may take together


class Stretch:
    """The calls for one batch that was taken; used by one run, as a context.

    After it the batch is narrowed to the messages of the last call, if that was no plain success,
    or to none; `Finisher.finish` does the rest.

    Args:
        held: the queue.
        batch: taken from it.
        size: messages of one call at most.

    Attributes:
        called: what the last call came to; set after each.
    """

    __slots__ = ("_batch", "_end", "_held", "_messages", "_size", "_spent", "called")

    def __init__(self, held: Held, batch: Batch, size: int) -> None:
        self._held = held
        self._batch = batch
        self._messages = batch.messages
        self._size = size
        self._end = 0
        self._spent = 0.0
        self.called: Called | None = None

    def __enter__(self) -> Self:
        if len(self._messages) > self._size:
            self._held.stretches.add(self._batch)
        return self

    def next_call(self) -> Sequence[ReceivedMessage]:
        """The messages of the next call, whose outcome goes to `called`; none: it is over."""
        start = self._end
        if start and not self._goes_on():
            return ()
        self._end = min(start + self._size, len(self._messages))
        return self._messages[start : self._end]

    def _goes_on(self) -> bool:
        if not self._went_well():
            return False
        self._batch.done = self._end
        more = self._end < len(self._messages) and self._spent < QUICK
        return more and self._held.owned.hands_out(now())

    @property
    def outcome(self) -> Called:
        """What the last call came to."""
        assert self.called is not None, "a batch has messages, so there was a call"
        return self.called

    def _went_well(self) -> bool:
        called = self.outcome
        self._spent += called.seconds
        return called.effect is PLAIN_SUCCESS and not called.context.names_some

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        held, batch, count = self._held, self._batch, len(self._messages)
        if batch.done < self._end < count or 0 < batch.done < count:
            with held.lock:  # which counts what is done
                if error is None:
                    held.owned.narrow(batch, self._end - batch.done)
        held.stretches.discard(batch)
        self._learn(went_well=error is None and batch.done == self._end)

    def _learn(self, *, went_well: bool) -> None:
        """Take more at once next time, or one call's messages only."""
        held = self._held
        if not went_well or self._spent >= QUICK:
            held.stretch = 1
        elif len(self._messages) >= held.stretch * self._size:
            held.stretch = min(2 * held.stretch, MOST_CALLS)
