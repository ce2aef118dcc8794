"""What is told of a command about a parked key while it runs, and how it ends.

What is recorded, and what is reported to whoever gave it. The record is what counts; tombstone,
result and event come after it. What could not be written is written later, and never done twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.park_queue import ParkQueue
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import OrderlyError
from orderly.log import key_text, where
from orderly.ordering.parking import ParkedPlace
from orderly.protocol.park_record import (
    Command,
    Control,
    Parked,
    Released,
    Result,
    Verb,
    control_message,
    short_text,
)


class Ending:
    """Of one command. Not thread-safe; what writes blocks and raises OrderlyError.

    Args:
        session: the consumer's shared state.
        held: the queue.
        queue: its park queue.
        command: what was to be done.

    Attributes:
        chosen: how it ends is known; `finish` writes what is left.
        finished: all of it is written.
        settled: messages that need no replay any more; of a dry run, that were tried.
    """

    def __init__(
        self, session: Session, held: HeldQueue, queue: ParkQueue, command: Command
    ) -> None:
        self.chosen = False
        self.finished = False
        self.settled = 0
        self._session = session
        self._held = held
        self._queue = queue
        self._command = command
        self._saver = OffsetSaver(session)
        self._left: deque[Callable[[], object]] = deque()

    # --- while it runs -------------------------------------------------------------------------

    def settle(self, messages: Sequence[Parked]) -> None:
        """Note that messages were acknowledged: those of the key that come first, in order."""
        size = sum(parked.original.stored_size for parked in messages)
        next_offset = messages[-1].offset + 1
        with self._held.lock:
            parking = self._held.owned.parking
            parking.settled(self._command.key, next_offset, messages=len(messages), size=size)
        self.settled += len(messages)

    def progress(self, *, record: bool, more: int = 0) -> int:
        """Say how far it is; returns where that is stored.

        Args:
            record: put it on record before.
            more: messages that were handled, and are not settled.
        """
        if record:
            self._saver.record(self._held)
        return self._append(Result(self._command.id, done=False, settled=self.settled + more))

    def waits(self, reason: str) -> None:
        """Say what it waits for."""
        self._append(Result(self._command.id, done=False, settled=self.settled, reason=reason))

    # --- its end: one of these -----------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Nothing can be done."""
        self._end(self._result(reason=short_text(reason)))

    def report(self, outcomes: tuple[tuple[int, str], ...], present: int) -> None:
        """Messages were tried; nothing changes.

        Args:
            outcomes: of each that was tried.
            present: how many there are; not more than MAX_OUTCOMES are tried.
        """
        tried = len(outcomes)
        reason = None if tried >= present else f"only the first {tried} of {present} were tried"
        self.settled = tried  # who asked reads it as "done"
        self._end(self._result(reason=reason, outcomes=outcomes))

    def count(self, parked: int) -> None:
        """So many messages of the key are parked now, or would be; no more is to be done."""
        self.settled = parked
        self._end(self._result())

    def stop(self, offset: int, reason: str) -> None:
        """The key stays parked, from the message at `offset` on."""
        reason = short_text(reason)
        self._end(
            partial(self._saver.record, self._held),
            self._tombstone(offset),
            self._result(failed_at=offset, reason=reason),
            partial(self.warn, "key.release_stopped", offset=offset, reason=reason),
        )

    def give_back(self, dropped: Sequence[ParkedPlace] = ()) -> None:
        """The key is parked no more: on record at once, for its messages go on to the handler.

        Args:
            dropped: messages that are settled without having been replayed.

        Raises:
            OrderlyError: that is not sure; the key stays parked.
        """
        key, parking = self._command.key, self._held.owned.parking
        with self._held.lock:
            parked = parking.get(key)
            assert parked is not None, "only the end of a command ends the parking"
            parking.release(key)
        try:
            self._saver.record(self._held)
        except OrderlyError:
            with self._held.lock:
                parking.restore(parked)
            raise
        self.settled += len(dropped)
        below = max(parked.next, dropped[-1].offset + 1) if dropped else parked.next
        event = "key.dropped" if self._command.verb is Verb.DROP else "key.released"
        self._held.log.info(event, below=below, **self._fields)
        self._end(self._tombstone(below), self._result())

    # --- writing it ----------------------------------------------------------------------------

    def finish(self) -> None:
        """Write what is left to be written."""
        while self._left:
            self._left[0]()
            self._left.popleft()
        self.finished = True

    def warn(self, event: str, **fields: object) -> None:
        """Emit a warning with the command's fields."""
        self._held.log.warning(event, **(self._fields | fields))

    @property
    def _fields(self) -> dict[str, object]:
        at = where(self._session.group, self._held.queue) | {"key": key_text(self._command.key)}
        command = {"command": self._command.id, "verb": str(self._command.verb)}
        return at | command | {"by": self._command.by, "settled": self.settled}

    def _end(self, *left: Callable[[], object]) -> None:
        self._left.extend(left)
        self.chosen = True

    def _result(
        self,
        failed_at: int | None = None,
        reason: str | None = None,
        outcomes: tuple[tuple[int, str], ...] = (),
    ) -> Callable[[], object]:
        result = Result(self._command.id, True, self.settled, failed_at, reason, outcomes)
        return partial(self._append, result)

    def _tombstone(self, below: int) -> Callable[[], object]:
        token = self._held.memory.token if self._held.memory else 0
        return partial(self._append, Released(self._command.key, below, token))

    def _append(self, record: Control) -> int:
        return self._queue.append(control_message(record))
