"""Runs the messages that may have ended former owners' processes: one at a time, on record first.

In a crash loop a record says which suspect is about to be handled, and another one that the handler
came back. So if the process ends in between, the next owner knows during what. Of all queues of a
consumer one suspect is tried at a time; a queue without suspects does not wait for it, all that is
in the others does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from orderly.clock import now
from orderly.consumer.finishing import Finisher
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.session import HeldQueue, Session, log_context
from orderly.errors import LockLost, OrderlyError
from orderly.ordering.context import Failure
from orderly.ordering.lane import Batch
from orderly.ordering.results import Disposition


class SuspectRuns:
    """Thread-safe. A run of a queue with suspects has the turn from `enter` to `leave`.

    Args:
        session: the consumer's shared state.
        finisher: parks what is condemned.
        ready: called when a queue may ask for its turn again.
    """

    def __init__(
        self, session: Session, finisher: Finisher, ready: Callable[[HeldQueue], None]
    ) -> None:
        self._session = session
        self._finisher = finisher
        self._ready = ready
        self._saver = OffsetSaver(session)
        self._lock = threading.Lock()
        self._trying: HeldQueue | None = None
        self._waiting: list[HeldQueue] = []
        self._behind: HeldQueue | None = None  # had its turn while others waited

    # --- turns ---------------------------------------------------------------------------------

    def enter(self, held: HeldQueue) -> bool:
        """Have the turn, if nobody else has it or comes first; never waits."""
        with self._lock:
            polite, self._behind = self._behind is held, None
            if self._trying is None and not polite:
                self._trying = held
            return self._trying is held

    def stand_by(self, held: HeldQueue) -> None:
        """Ask for `ready` once the turn is free; call it when the queue's run has ended."""
        with self._lock:
            free = self._trying is None
            if not free and held not in self._waiting:
                self._waiting.append(held)
        if free:
            self._ready(held)

    def leave(self, held: HeldQueue) -> None:
        """Give the turn back, if the queue has it."""
        with self._lock:
            if self._trying is not held:
                return
            self._trying = None
            waiting, self._waiting = self._waiting, []
            self._behind = held if waiting else None
        for other in waiting:
            self._ready(other)

    # --- one message ---------------------------------------------------------------------------

    def is_suspect(self, held: HeldQueue, batch: Batch | None) -> bool:
        """Whether what was taken is a suspect, and not something that may run beside others."""
        if batch is None or not batch.messages or held.owned.parking.parked(batch.key):
            return False
        return held.owned.suspects.suspected(batch.messages[0].queue_offset)

    def open(self, held: HeldQueue, batch: Batch) -> bool:
        """Have it on record that a message is about to be handled; blocks.

        Returns:
            Whether to call the handler, and `close` after that. Otherwise the batch is settled: its
            message is condemned, or nothing could be put on record.
        """
        message = batch.messages[0]
        deaths = held.owned.suspects.condemned.get(message.queue_offset)
        if deaths is not None:
            self._condemn(held, batch, deaths)
            return False
        if not held.owned.suspects.suspected(message.queue_offset):
            return True
        try:
            self._journal(held, message.queue_offset)
        except OrderlyError as error:
            self._put_back(held, batch, error)
            return False
        return True

    def close(self, held: HeldQueue) -> None:
        """Have it on record that the handler came back; blocks. Its answer was applied."""
        try:
            if held.owned.suspects.trying is not None:
                self._journal(held, None)
            self._record_end(held)
        except OrderlyError as error:
            held.log.warning("suspects.not_recorded", error=str(error))
        finally:
            self.leave(held)

    def break_off(self, held: HeldQueue) -> None:
        """A run broke down and its batch was put back: no message is being tried any more."""
        with held.lock:
            held.owned.suspects.stopped()
        self.leave(held)

    def _journal(self, held: HeldQueue, offset: int | None) -> None:
        """Write down what is tried from now on; None: nothing is."""
        assert held.memory is not None, "without a memory nothing is suspected"
        with held.saving:  # an entry also says what is tried: entries keep that order
            with held.lock:
                held.owned.tries(offset)
            try:
                self._session.converse(held.memory.journal(offset), lambda: _check(held))
                if offset is not None:  # that took a while, and the handler comes next
                    _check(held)
            except OrderlyError:
                with held.lock:
                    held.owned.suspects.stopped()
                raise

    def _record_end(self, held: HeldQueue) -> None:
        """If the last suspect was cleared, put that on record: the next owner begins after it."""
        with held.lock:
            over, held.owned.suspects.over = held.owned.suspects.over, False
        if over:
            held.log.info("crash_loop.ends")
            self._saver.record(held)

    def _condemn(self, held: HeldQueue, batch: Batch, deaths: int) -> None:
        message = batch.messages[0]
        reason = f"the process died {deaths} times while handling it"
        held.log.error(
            "message.condemned",
            **log_context(self._session.group, held, message, batch.key),
            deaths=deaths,
            reason=reason,
        )
        failure = Failure(reason, attempts=deaths)
        self._finisher.set_aside(held, batch, {message.queue_offset: failure})

    def _put_back(self, held: HeldQueue, batch: Batch, error: OrderlyError) -> None:
        message, seconds = batch.messages[0], self._session.config.suspend
        at = log_context(self._session.group, held, message, batch.key)
        held.log.warning("suspects.not_recorded", **at, error=str(error), seconds=seconds)
        with held.lock:
            untried = {message.queue_offset}
            held.owned.finish(batch, Disposition.PUT_BACK, now(), untried=untried, wait=seconds)
        self._finisher.wake_later(held, seconds)
        self.leave(held)


def _check(held: HeldQueue) -> None:
    """Raise LockLost if the queue is no longer ours, so that no record is due."""
    with held.lock:
        ours = held.owned.may_save(now())
    if not ours:
        raise LockLost(f"{held.queue} was lost before one of its messages was tried")
