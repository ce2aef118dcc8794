"""Takes queues over: lock at the broker, find the start, begin to pull. Java: RebalanceImpl.

A queue that another member has locked is left out and tried again in the next round; so is one
whose start is not certain.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection
from datetime import datetime

from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.calls import LockQueues, UnlockQueues
from orderly.ordering.flow import queue_limits
from orderly.ordering.handover import find_start
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.rebalance import by_broker
from orderly.ordering.start import for_later_queue
from orderly.protocol.heartbeat import Subscription


class Taker:
    """Takes queues on the rebalancer's thread.

    Args:
        session: the consumer's shared state.
        start_pulling: called for each queue taken.
    """

    def __init__(self, session: Session, start_pulling: Callable[[Held], None]) -> None:
        self._session = session
        self._start_pulling = start_pulling
        self._known: dict[str, frozenset[MessageQueue]] = {}

    def know(self, topic: str, queues: Collection[MessageQueue]) -> None:
        """Note the queues a topic had when it was first looked at; others are later ones."""
        self._known.setdefault(topic, frozenset(queues))

    def forget(self, topics: Collection[str]) -> None:
        """Forget what was noted of topics that are no longer subscribed."""
        for topic in topics:
            self._known.pop(topic, None)

    def take(
        self, queues: tuple[MessageQueue, ...], subscription: Subscription
    ) -> list[MessageQueue]:
        """Lock and start `queues`, with one lock request a broker; returns those taken."""
        taken: list[Held] = []
        for broker_name, of_broker in by_broker(queues).items():
            try:
                taken += self._take(LockQueues(broker_name, of_broker), subscription)
            except OrderlyError as error:
                self._session.log.warning("queues not locked", broker=broker_name, error=str(error))
        self._announce(taken)
        return [held.queue for held in taken]

    def split_limits(self, topic: str) -> None:
        """Give the queues held of a topic their share of its limits; a larger one may reopen."""
        of_topic = [
            held
            for held in self._session.held()
            if held.queue.topic == topic and held.owned.dropped is None
        ]
        messages, size = queue_limits(self._session.config, len(of_topic))
        for held in of_topic:
            with held.lock:
                held.owned.limit(messages, size)
                reopened = held.owned.wants_pull
            if reopened:
                self._start_pulling(held)

    def _announce(self, taken: list[Held]) -> None:
        """Tell the program first: what its hook prepares must be there before a message is."""
        queues = [held.queue for held in taken]
        self._session.hooks.tell("assigned", self._session.log, queues)
        current = self._session.subscriptions
        for held in taken:
            if current.get(held.queue.topic) is not held.subscription:  # changed meanwhile
                with held.lock:
                    held.owned.drop(Drop.RESUBSCRIBED)
            self._start_pulling(held)

    def _take(self, call: LockQueues, subscription: Subscription) -> list[Held]:
        asked_at = now()
        granted = self._session.perform(call)
        refused = [queue.queue_id for queue in call.queues if queue not in granted]
        if refused:
            self._session.log.info(
                "queues still locked by another member",
                broker=call.broker_name,
                queue_ids=refused,
            )
        if self._session.closing:
            self._give_back(*granted)
            return []
        begun = [
            self._begin(queue, asked_at, subscription) for queue in call.queues if queue in granted
        ]
        return [held for held in begun if held is not None]

    def _begin(
        self, queue: MessageQueue, asked_at: float, subscription: Subscription
    ) -> Held | None:
        session = self._session
        try:
            start = session.converse(find_start(queue, self._position(queue)))
        except OrderlyError as error:
            # Without a certain start there is no pull; the next round begins anew.
            session.log.warning("start offset unknown", queue=str(queue), error=str(error))
            self._give_back(queue)
            return None
        owned = OwnedQueue(
            queue,
            start,
            Lease(asked_at, math.inf if session.config.broadcasting else session.config.lock_trust),
            max_messages=session.config.pull_threshold,
            max_bytes=session.config.pull_threshold_bytes,
        )
        held = session.add(owned, subscription)
        held.log.info("queue assigned", start=start)
        return held

    def _position(self, queue: MessageQueue) -> str | datetime:
        position = self._session.consume_from
        known = queue in self._known.get(queue.topic, (queue,))
        return position if known else for_later_queue(position)

    def _give_back(self, *queues: MessageQueue) -> None:
        with contextlib.suppress(OrderlyError):  # then the broker frees them within 60 s
            for broker_name, of_broker in by_broker(sorted(queues)).items():
                self._session.perform(UnlockQueues(broker_name, of_broker))
