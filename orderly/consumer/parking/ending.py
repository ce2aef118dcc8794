"""How a command comes to its end: what is recorded, and what is told to whoever gave it.

The record is what counts; tombstone, result and event come after it. What could not be written is
written later, and never done twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from orderly.consumer.owning.offset_saver import OffsetSaver
from orderly.consumer.parking.reading import ParkQueue
from orderly.consumer.session import Held, Session
from orderly.errors import OrderlyError
from orderly.log import key_text, where
from orderly.ordering.parking.index import Place
from orderly.protocol.park_control import Command, Control, Released, Result, Verb, short_text
from orderly.protocol.park_record import Parked, control_message


class Ending:
    """Of one command. Not thread-safe; what writes blocks and raises OrderlyError.

    Args:
        session: the consumer's shared state.
        held: the queue.
        queue: its park queue.
        command: what was to be done.
        position: of the command.

    Attributes:
        chosen: how it ends is known; `tell` is what is left.
        told: all of it is done.
        settled: messages that need no replay any more; of a dry run, that were tried.
    """

    def __init__(
        self, session: Session, held: Held, queue: ParkQueue, command: Command, position: int
    ) -> None:
        self.chosen = False
        self.told = False
        self.settled = 0
        self._session = session
        self._held = held
        self._queue = queue
        self._command = command
        self._position = position
        self._saver = OffsetSaver(session)
        self._left: deque[Callable[[], object]] = deque()

    # --- on the way ----------------------------------------------------------------------------

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

    # --- one of these --------------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Nothing can be done."""
        self._end(self._result(reason=reason))

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

    def give_back(self, dropped: Sequence[Place] = ()) -> None:
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
        self.warn(event, below=below)
        self._end(self._tombstone(below), self._result())

    # --- telling -------------------------------------------------------------------------------

    def tell(self) -> None:
        """Write what is left to be written."""
        while self._left:
            self._left[0]()
            self._left.popleft()
        with self._held.lock:
            parking = self._held.owned.parking
            parking.commands = max(parking.commands, self._position + 1)
        self.told = True

    def warn(self, event: str, **fields: object) -> None:
        """Emit an event with the command's fields."""
        at = where(self._session.group, self._held.queue) | {"key": key_text(self._command.key)}
        command = {"command": self._command.id, "verb": str(self._command.verb)}
        told = {"by": self._command.by, "settled": self.settled}
        self._held.log.warning(event, **(at | command | told | fields))

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
