"""Sends messages that failed too often, or that a handler rejected, to the group's dead letters.

Only to the master of the message's own queue, right after its lock was renewed: there the broker is
sure to put it into `%DLQ%<group>`; elsewhere it could land in the retry topic and come back out of
order. Until the broker said that it is stored, the message is not done.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence

from orderly.clock import now
from orderly.consumer.renewal import renew_now
from orderly.consumer.session import HeldQueue, Session, log_context
from orderly.errors import OrderlyError
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.protocol.send import dead_letter_request


class DeadLetterSender:
    """Thread-safe; each call blocks for up to a request's time-out.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def send_to_dlq(
        self,
        held: HeldQueue,
        batch: tuple[ReceivedMessage, ...],
        context: ConsumeContext,
        *,
        rolled_back: bool = False,
    ) -> frozenset[int]:
        """Dead-letter what has to be, of a batch that failed or was rolled back.

        In the order of the batch; after a send that failed no other is tried.

        Args:
            held: the batch's queue.
            batch: in work.
            context: with what the handler named.
            rolled_back: no attempt is counted, so none is one too many (as Java).

        Returns:
            The queue offsets of those that are stored.
        """
        stored = set()
        for message in batch:
            reason = self._due(message, context, rolled_back)
            if reason is None:
                continue
            if not self._send(held, message, context.key, reason):
                break
            stored.add(message.queue_offset)
        return frozenset(stored)

    def has_work(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, *, rolled_back: bool
    ) -> bool:
        """Whether `send_to_dlq` would send anything."""
        return any(self._due(message, context, rolled_back) is not None for message in messages)

    def _due(
        self, message: ReceivedMessage, context: ConsumeContext, rolled_back: bool
    ) -> str | None:
        """Why it is a dead letter, or None (Java: checkReconsumeTimes)."""
        if message.queue_offset in context.finished | context.untried:
            return None
        rejected = context.rejected.get(message.queue_offset)
        if rejected is not None:
            return rejected or "rejected by the handler"
        limit = None if rolled_back or context.parked else self._session.config.max_reconsume_times
        if limit is not None and message.reconsume_times >= limit:
            return f"failed {message.reconsume_times + 1} times"
        return None

    def _send(self, held: HeldQueue, message: ReceivedMessage, key: Hashable, reason: str) -> bool:
        at = log_context(self._session.group, held, message, key)
        try:
            if not self._renew(held):
                return False
            command = dead_letter_request(
                self._session.group, message, held.queue.broker_name, time.time()
            )
            self._session.client.brokers.send_now(held.queue, command)
        except OrderlyError as error:
            held.log.warning("message.not_dead_lettered", **at, error=str(error))
            return False
        held.log.error("message.dead_lettered", **at, reason=reason, message_id=message.message_id)
        return True

    def _renew(self, held: HeldQueue) -> bool:
        """Renew the queue's lock; returns whether it is ours still, and its results count."""
        if self._counts(held):
            renew_now(self._session, held)
        return self._counts(held)

    def _counts(self, held: HeldQueue) -> bool:
        with held.lock:
            return held.owned.keeps_lock(now()) and held.owned.counts
