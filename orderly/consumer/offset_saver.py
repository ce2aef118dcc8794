"""Commits the offsets of held queues to the broker, every 5 s and when a queue is handed on.

Only offsets go through here that the lease still covers: the broker itself would accept a commit
from anybody (it has no owner check), so the fence is ours.
"""

from __future__ import annotations

from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError
from orderly.ordering.calls import SaveOffset
from orderly.ordering.handover import hand_on
from orderly.ordering.owned_queue import Drop


class OffsetSaver:
    """Saves offsets. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def save_all(self) -> None:
        """Save what is unsaved; a failure is logged and tried again in the next round."""
        for held in self._session.held():
            try:
                self._save(held)
            except OrderlyError as error:
                held.log.warning("offset not saved; it is tried again", error=str(error))

    def _save(self, held: Held) -> None:
        with held.saving:
            offset = self._unsaved(held)
            if offset is None:
                return
            self._session.perform(SaveOffset(held.queue, offset))
            with held.lock:
                held.owned.saved(offset)

    def hand_on(self, held: Held) -> None:
        """Save the offset of an idle, dropped queue, then give its lock back.

        Raises:
            OrderlyError: a failure that may pass; the queue is still locked.
        """
        with held.saving:
            offset = self._unsaved(held)
            with held.lock:
                ours = held.owned.keeps_lock(now())
            refusal = self._session.converse(hand_on(held.queue, offset)) if ours else None
            with held.lock:
                held.owned.drop(Drop.LOST)  # unlocked: whoever waited for `saving` saves no more
        if refusal is not None:
            held.log.error("the broker refuses the offset", unsaved=offset, error=str(refusal))

    def _unsaved(self, held: Held) -> int | None:
        with held.lock:
            return held.owned.unsaved(now())
