"""Commits the offsets of held queues to the broker, every 5 s and when a queue is handed on.

Only offsets go through here that the lease still covers: the broker itself would accept a commit
from anybody (it has no owner check), so the fence is ours.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from orderly.consumer.session import Held, Session, now
from orderly.errors import BrokerError, OrderlyError, RemotingError
from orderly.model import MessageQueue
from orderly.ordering.calls import Call, SaveOffset, converse
from orderly.ordering.handover import hand_on
from orderly.ordering.owned_queue import Drop


class OffsetSaver:
    """Saves offsets. Thread-safe."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def save_all(self, deadline: float = math.inf) -> None:
        """Save what is unsaved; a failure is logged and tried again in the next round.

        A broker that does not answer is asked once a round, so that it does not hold up the others.

        Args:
            deadline: after it no further queue is begun (seconds, `session.now`).
        """
        if self._session.store_together is not None:
            self._save_together(self._session.store_together)
            return
        silent: set[str] = set()
        for held in self._session.held():
            if held.queue.broker_name in silent or now() >= deadline:
                continue
            try:
                self._save(held)
            except OrderlyError as error:
                held.log.warning("offset not saved; it is tried again", error=str(error))
                if isinstance(error, RemotingError):
                    silent.add(held.queue.broker_name)

    def _save_together(self, store: Callable[[dict[MessageQueue, int]], None]) -> None:
        """Save all offsets with one write, where the write is what costs."""
        with contextlib.ExitStack() as saving:
            unsaved: dict[Held, int] = {}
            for held in self._session.held():
                saving.enter_context(held.saving)
                offset = self._unsaved(held)
                if offset is not None:
                    unsaved[held] = offset
            try:
                store({held.queue: offset for held, offset in unsaved.items()})
            except OrderlyError as error:
                self._session.log.warning("offsets not saved; tried again", error=str(error))
                return
            for held, offset in unsaved.items():
                self._note(held, offset)

    def _save(self, held: Held) -> None:
        with held.saving:
            offset = self._unsaved(held)
            if offset is not None:
                self._session.perform(SaveOffset(held.queue, offset))
                self._note(held, offset)

    def hand_on(self, held: Held) -> None:
        """Save the offset of an idle, dropped queue, then give its lock back.

        Raises:
            OrderlyError: a failure that may pass; the queue may still be locked.
        """
        with held.saving:
            offset = self._unsaved(held)
            with held.lock:
                ours = held.owned.keeps_lock(now())
            refusal = self._converse(held, offset) if ours else None
            with held.lock:
                held.owned.drop(Drop.LOST)  # unlocked: whoever waited for `saving` saves no more
        if refusal is not None:
            held.log.error("the broker refuses the offset", unsaved=offset, error=str(refusal))

    def _converse(self, held: Held, offset: int | None) -> BrokerError | None:
        """Save and unlock. An acknowledged save is noted before the unlock.

        The answer to an unlock may be lost: what is repeated then must not save again, over the
        offset of an heir.
        """

        def perform(call: Call) -> Any:
            answer = self._session.perform(call)
            if isinstance(call, SaveOffset):
                self._note(held, call.offset)
            return answer

        return converse(hand_on(held.queue, offset), perform)

    def _note(self, held: Held, offset: int) -> None:
        with held.lock:
            held.owned.saved(offset)

    def _unsaved(self, held: Held) -> int | None:
        with held.lock:
            return held.owned.unsaved(now())
