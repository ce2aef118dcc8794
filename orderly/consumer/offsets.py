"""Offsets of held queues, saved: the offset, what is finished above it, and the parked keys.

They are committed every 5 s and when a queue is handed on. Only offsets go to the broker that the
lease still covers, right after a renewal, and after the broker's offset was compared with what we
wrote: the broker itself would accept a commit from anybody, so the fence is ours.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from functools import partial

from orderly.clock import now
from orderly.consumer.broker_threads import BrokerThreads
from orderly.consumer.renewal import announce_loss, renew, renew_now
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import (
    LockLost,
    OrderlyError,
    RemotingError,
)
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import Answer, Dialogue, OffsetReset, converse
from orderly.ordering.fence import Fence, new_minimum
from orderly.ordering.owned_queue import Drop
from orderly.ordering.ownership import (
    CommitProgress,
    NotOnRecord,
    Recreated,
    check_generation,
    commit,
    hand_on,
)
from orderly.ordering.start import message_below

REFRESH = 3600.0  # seconds after which a state is written again; brokers keep records for days
LOOK_AGAIN = 60.0  # seconds after which the broker's offset is compared though nothing is new
_TIMELY = 10.0  # seconds from the question for the stored offset to the write that rests on it


class OffsetSaver:
    """Saves offsets. Thread-safe.

    Args:
        session: the consumer's shared state.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps = BrokerThreads(f"saving-{session.group}")

    def save_all(self, deadline: float = math.inf) -> None:
        """Save what is unsaved; a failure is logged and tried again in the next round.

        Of a queue with nothing new the broker's offset is compared once a minute: it vanishes when
        the topic is deleted, or a killed broker forgets it, and an idle queue would never notice.
        Brokers are asked side by side; one that does not answer is asked once a round.

        Args:
            deadline: after it no further queue is begun (seconds, `clock.now`).
        """
        if self._session.store_together is not None:
            self._save_together(self._session.store_together)
            return
        unsaved: dict[str, list[HeldQueue]] = {}
        for held in self._session.held():
            if self._has_news(held) or self._overdue(held):
                unsaved.setdefault(held.queue.broker_name, []).append(held)
        steps = {
            name: partial(self._save_of_broker, holds, deadline) for name, holds in unsaved.items()
        }
        if math.isfinite(deadline):  # the last time: also where a round has not ended yet
            last = BrokerThreads(f"last-saving-{self._session.group}")
            last.run(steps, self._session.client.config.request_timeout)
        else:
            self.steps.run(steps)

    def save(self, held: HeldQueue) -> None:
        """Save one queue's offset; a failure is logged, and tried again in the next round."""
        if self._session.store_together is None and self._has_news(held):
            self._save_of_broker([held], math.inf)

    def record(self, held: HeldQueue) -> None:
        """Commit one queue now: its offset, what is finished ahead and the parked keys.

        Returns once all that is on record, also if it was before. Calls that wait for each other
        share a commit: a thousand keys that are parked at once need no thousand.

        Raises:
            LockLost: this member no longer has the queue.
            OrderlyError: it may not be on record. Calling it again is right.
        """
        begun = held.commits_begun
        renew_now(self._session, held)
        try:
            with held.saving:
                self._in_time(held)()
                if held.committed > begun:
                    return
                held.commits_begun += 1
                progress = self._progress(held)
                if progress is not None:
                    self._commit(held, progress)
        except LockLost as error:
            self._fenced(held, error)
            raise

    def _save_of_broker(self, holds: Sequence[HeldQueue], deadline: float) -> None:
        if now() >= deadline:
            return
        try:
            renew_now(self._session, *holds)
        except OrderlyError as error:
            log, broker = self._session.log, holds[0].queue.broker_name
            log.warning("offset.not_saved", broker=broker, error=str(error))
            return
        for held in holds:
            if now() >= deadline or not self._saved(held):
                return

    def _saved(self, held: HeldQueue) -> bool:
        """Save one queue's offset; returns whether its broker answers."""
        try:
            with held.saving:
                held.commits_begun += 1
                progress = self._progress(held, anyway=self._overdue(held))
                if progress is not None:
                    self._commit(held, progress)
        except LockLost as error:
            self._fenced(held, error)
        except NotOnRecord as error:
            held.log.warning("state.not_recorded", error=str(error))
        except OrderlyError as error:
            held.log.warning("offset.not_saved", error=str(error))
            return not isinstance(error, RemotingError)
        return True

    def _commit(self, held: HeldQueue, progress: CommitProgress) -> None:
        stale = self._stale(held)
        dialogue = commit(
            held.queue, progress, held.owned.fence, held.memory, now=now(), refresh=stale
        )
        try:
            self._converse(held, progress, dialogue)
        except NotOnRecord:
            self._session.attention()  # the next round makes the state topic
            raise
        held.committed = held.commits_begun
        held.compared_at = now()
        if stale:
            held.refreshed_at = now()

    def find_out(self, held: HeldQueue) -> None:
        """Find out whether the queue's topic was recreated; then the queue is given up.

        Where no message is known that could show it, the last one that was pulled, or passed over
        by the filter, is noted for the next time.

        Raises:
            LockLost: it was, or it is no longer ours.
            OffsetReset: an operator has reset the offset.
            OrderlyError: it cannot be known now.
        """
        fence = held.owned.fence
        if fence.landmark is None:
            below = message_below(held.queue, held.owned.next_pull)
            landmark, _ = converse(below, self._session.perform)
            with held.lock:
                fence.landmark = fence.landmark or landmark
            return
        if converse(new_minimum(held.queue, fence.landmark), self._session.perform) is None:
            return
        renew_now(self._session, held)
        try:
            with held.saving:
                with held.lock:
                    kept = held.owned.parking.kept
                dialogue = check_generation(held.queue, fence, held.memory, kept)
                self._session.converse(dialogue, self._in_time(held))
        except LockLost as error:
            self._fenced(held, error)
            raise

    def _converse(
        self, held: HeldQueue, progress: CommitProgress | None, dialogue: Dialogue[Answer]
    ) -> Answer:
        """Save progress; where the broker tells of a reset instead, the queue moves there."""
        try:
            return self._session.converse(dialogue, self._in_time(held, progress))
        except OffsetReset as reset:
            self._session.told_to_start_at(held, reset.offset, reset=True)
            raise

    def _in_time(
        self, held: HeldQueue, progress: CommitProgress | None = None
    ) -> Callable[[], None]:
        """The check before each write: the process may have slept since the lock was renewed.

        And a pull may have been told of a reset since `progress` was what is to be saved.
        """
        begun = now()

        def check() -> None:
            with held.lock:
                ours, moved = held.owned.may_save(now()), held.owned.restarted
            if not ours:
                raise LockLost(f"{held.queue} was lost before its progress was saved")
            if moved and progress is not None and not progress.moved:
                raise OrderlyError(f"the offset of {held.queue} was set to another one meanwhile")
            if now() - begun > _TIMELY:
                raise OrderlyError("the broker's answers came too late to be relied on")

        return check

    def _overdue(self, held: HeldQueue) -> bool:
        return held.owned.dropped is None and now() - held.compared_at >= LOOK_AGAIN

    def _stale(self, held: HeldQueue) -> bool:
        return held.memory is not None and now() - held.refreshed_at >= REFRESH

    def _save_together(self, store: Callable[[dict[MessageQueue, int]], None]) -> None:
        """Save all offsets with one write, where the write is what costs."""
        with contextlib.ExitStack() as saving:
            unsaved: dict[HeldQueue, int] = {}
            for held in self._session.held():
                saving.enter_context(held.saving)
                progress = self._progress(held)
                if progress is not None:
                    unsaved[held] = progress.offset
            if not unsaved:
                return
            try:
                store({held.queue: offset for held, offset in unsaved.items()})
            except OrderlyError as error:
                self._session.log.warning("offset.not_saved", error=str(error))
                return
            for held, offset in unsaved.items():
                held.owned.fence.note(offset, now())

    def hand_on(self, held: HeldQueue) -> None:
        """Save the offset of an idle, dropped queue, then give its lock back.

        The caller holds `session.locking` of its broker.

        Raises:
            OrderlyError: a failure that may pass; the queue may still be locked.
        """
        with held.saving:
            progress = self._progress(held, closing=True)
            if progress is not None:
                renew(self._session, held.queue.broker_name)
                progress = self._progress(held, closing=True)
            with held.lock:
                ours = held.owned.keeps_lock(now())
            if ours:
                fence, memory = held.owned.fence, held.memory
                dialogue = hand_on(held.queue, progress, fence, memory, now=now())
                refusal = self._converse(held, progress, dialogue)
                if isinstance(refusal, NotOnRecord):
                    held.log.warning("state.not_recorded", error=str(refusal))
                elif refusal is not None:
                    held.log.error("offset.save_refused", error=str(refusal))
            with held.lock:
                held.released = ours
                held.owned.drop(Drop.LOST)  # unlocked: whoever waited for `saving` saves no more

    def _has_news(self, held: HeldQueue) -> bool:
        """Whether there is something to save; what is finished ahead is worked out if need be."""
        with held.lock:
            moved = held.owned.unsaved(now()) is not None
        return moved or self._progress(held) is not None

    def _progress(
        self, held: HeldQueue, *, closing: bool = False, anyway: bool = False
    ) -> CommitProgress | None:
        """What is to be saved; None: nothing new, unless wanted `anyway`, or not ours to save."""
        with held.lock:
            owned = held.owned
            if not owned.may_save(now()):
                return None
            unsaved = owned.unsaved(now()) is not None
            offset, ahead, moved = owned.offset, owned.ahead, owned.restarted
            kept, crashes = owned.parking.kept, owned.crashes(closing=closing)
            marks = owned.sent_again if held.memory is not None else ()
        finished = () if ahead is None else ahead.finished
        progress = CommitProgress(offset, finished, moved, kept, crashes, marks)
        if unsaved or anyway:
            return progress
        if held.memory is None:
            return None
        fence = owned.fence
        due = held.memory.due(
            offset, fence.written, finished, kept, crashes, sent_again=marks, fence=fence
        )
        return progress if closing or due or self._stale(held) else None

    def _fenced(self, held: HeldQueue, error: LockLost) -> None:
        if isinstance(error, Recreated):
            self._recreated(held, error.start)
        else:
            with held.lock:
                held.owned.drop(Drop.FENCED)
        announce_loss(self._session, held, str(error))

    def _recreated(self, held: HeldQueue, start: int) -> None:
        """Give up a queue whose topic was recreated; the new generation begins at `start`."""
        fence = held.owned.fence
        with held.lock:
            dropped = held.owned.drop(Drop.RECREATED)
            # A broker that is killed now comes back with an offset of before.
            held.owned.fence = Fence(start, fence.window, now=now())
        if dropped:
            held.log.warning("topic.recreated", former=fence.written, start=start)
