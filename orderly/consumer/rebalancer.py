"""Decides with the other members who owns which queue, and carries the difference out.

A round runs every 20 s, when the broker says that the members changed, at the start, and when a
queue needs attention. One topic's failure never stops the others, and a failed question keeps the
assignment as it is. Java: RebalanceImpl.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable

from orderly.consumer.offset_saver import OffsetSaver
from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.allocation import averagely
from orderly.ordering.calls import LockQueues, UnlockQueues
from orderly.ordering.handover import find_start
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.rebalance import Plan, by_broker, my_share, plan
from orderly.ordering.start import RETRY_PREFIX
from orderly.protocol.heartbeat import Subscription

RETRY_SOON = 0.5  # seconds until the next round when a queue is still missing or leaving (as Java)
_ROUNDS_TO_JOIN = 20  # rounds without being listed as a member before it is worth a warning


class Rebalancer:
    """Runs rounds on one thread.

    Args:
        session: the consumer's shared state.
        saver: saves offsets before a lock is given back.
        start_pulling: called for each queue gained.
        again: asks for another round after some seconds.
    """

    def __init__(
        self,
        session: Session,
        saver: OffsetSaver,
        start_pulling: Callable[[Held], None],
        again: Callable[[float], None],
    ) -> None:
        self._session = session
        self._saver = saver
        self._start_pulling = start_pulling
        self._again = again
        self._idle_reported: set[str] = set()
        self._unlisted = 0

    def round(self) -> None:
        """Do one round; asks for another one soon if something is left to do."""
        session = self._session
        settled = True
        self.drop_outdated()
        for topic in tuple(session.subscriptions):
            try:
                settled &= self._rebalance(topic)
            except OrderlyError as error:
                self._report(topic, error)
        settled &= self.release_idle()
        if not settled:
            self._again(RETRY_SOON)

    def release_idle(self, deadline: float = math.inf) -> bool:
        """Release each dropped queue that no handler works on; returns whether none is left.

        Args:
            deadline: after it no further queue is begun (seconds, `session.now`).
        """
        leaving = [held for held in self._session.held() if held.owned.dropped is not None]
        released = [now() < deadline and self._release(held) for held in leaving]
        return all(released)

    def drop_all(self, reason: Drop) -> None:
        """Stop handing out on every queue."""
        for held in self._session.held():
            self._drop(held, reason)

    def drop_outdated(self) -> None:
        """Give up the queues whose topic is no longer subscribed, or otherwise than they are held.

        From the drop on nothing more is taken in, so no message is filtered by the old tags once
        the new ones are set. Thread-safe.
        """
        current = self._session.subscriptions
        for held in self._session.held():
            subscription = current.get(held.queue.topic)
            if subscription is not held.subscription:
                self._drop(held, Drop.RESUBSCRIBED if subscription else Drop.REVOKED)

    def _rebalance(self, topic: str) -> bool:
        session = self._session
        subscription = session.subscriptions.get(topic)
        if subscription is None:  # unsubscribed while this round ran
            return True
        queues = session.client.routes.get(topic).read_queues()
        members = session.client.brokers.consumer_ids(session.group, topic)
        share = my_share(session.client.client_id, queues, members, averagely)
        if share is None:
            self._report_unlisted(topic, members)
            return False
        self._unlisted = 0
        self._report_idle(topic, share, members)
        changes = self._plan(topic, share)
        for held in self._session.held():
            if held.queue in changes.revoked:
                self._drop(held, Drop.REVOKED)
        gained = self._gain(changes.gained, subscription)
        if changes.revoked or gained:
            session.client.heartbeat.heartbeat_now()
        return gained == len(changes.gained)

    def _plan(self, topic: str, share: frozenset[MessageQueue]) -> Plan:
        of_topic = [held for held in self._session.held() if held.queue.topic == topic]
        leaving = {held.queue for held in of_topic if held.owned.dropped is not None}
        active = {held.queue for held in of_topic} - leaving
        return plan(share, active, leaving)

    def _gain(self, queues: tuple[MessageQueue, ...], subscription: Subscription) -> int:
        """Lock and start queues; returns how many were taken."""
        taken = 0
        for broker_name, of_broker in by_broker(queues).items():
            try:
                taken += self._take(LockQueues(broker_name, of_broker), subscription)
            except OrderlyError as error:
                self._session.log.warning("queues not locked", broker=broker_name, error=str(error))
        return taken

    def _take(self, call: LockQueues, subscription: Subscription) -> int:
        asked_at = now()
        granted = self._session.perform(call)
        refused = [queue.queue_id for queue in call.queues if queue not in granted]
        if refused:
            self._session.log.info(
                "queues still locked by another member",
                broker=call.broker_name,
                queue_ids=refused,
            )
        ours = [queue for queue in call.queues if queue in granted]
        return sum(self._begin(queue, asked_at, subscription) for queue in ours)

    def _begin(self, queue: MessageQueue, asked_at: float, subscription: Subscription) -> bool:
        session, config = self._session, self._session.config
        try:
            start = session.converse(find_start(queue, session.consume_from))
        except OrderlyError as error:
            # Without a certain start there is no pull; the next round begins anew.
            session.log.warning("start offset unknown", queue=str(queue), error=str(error))
            self._give_back(queue)
            return False
        owned = OwnedQueue(
            queue,
            start,
            Lease(asked_at, config.lock_trust),
            max_messages=config.pull_threshold,
            max_bytes=config.pull_threshold_bytes,
        )
        held = session.add(owned, subscription)
        if session.subscriptions.get(queue.topic) is not subscription:  # changed meanwhile
            self._drop(held, Drop.RESUBSCRIBED)
            return False
        held.log.info("queue assigned", start=start)
        self._start_pulling(held)
        return True

    def _give_back(self, queue: MessageQueue) -> None:
        with contextlib.suppress(OrderlyError):  # then the broker frees it within 60 s
            self._session.perform(UnlockQueues(queue.broker_name, (queue,)))

    def _drop(self, held: Held, reason: Drop) -> None:
        with held.lock:
            changed = held.owned.drop(reason)
        if changed:
            held.log.info("queue given up", reason=reason.value)

    def _release(self, held: Held) -> bool:
        with held.lock:
            idle, reason = held.owned.idle, held.owned.dropped
        if not idle:
            return False
        try:
            with self._session.locking:
                self._saver.hand_on(held)
                self._session.remove(held)
        except OrderlyError as error:
            held.log.warning("queue not released; it is tried again", error=str(error))
            return False
        held.log.info("queue released", reason=reason.value if reason else None)
        # A queue dropped for any other reason is still ours by allocation: take it again.
        return reason in (Drop.REVOKED, Drop.CLOSING)

    def _report(self, topic: str, error: OrderlyError) -> None:
        if topic.startswith(RETRY_PREFIX) and isinstance(error, TopicNotFound):
            return  # the broker makes the retry topic with the group's first heartbeat
        self._session.log.warning(
            "rebalance failed; the assignment stays", subscribed=topic, error=str(error)
        )

    def _report_unlisted(self, topic: str, members: Iterable[str]) -> None:
        """The broker drops the heartbeats of a group it may not create, without saying so."""
        self._unlisted += 1
        log = self._session.log
        tell = log.warning if self._unlisted == _ROUNDS_TO_JOIN else log.info
        tell(
            "not among the group's members; if this stays, create the group at the broker",
            subscribed=topic,
            members=tuple(members),
        )

    def _report_idle(
        self, topic: str, share: frozenset[MessageQueue], members: Iterable[str]
    ) -> None:
        if share:
            self._idle_reported.discard(topic)
        elif topic not in self._idle_reported and not topic.startswith(RETRY_PREFIX):
            self._idle_reported.add(topic)
            self._session.log.warning(
                "more members than queues: this member is idle",
                subscribed=topic,
                members=len(tuple(members)),
            )
