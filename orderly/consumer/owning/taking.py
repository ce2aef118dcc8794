"""Takes queues over: lock at the broker, find the start, begin to pull. Java: RebalanceImpl.

A queue that another member has locked is left out and tried again in the next round; so is one
whose start is not certain.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from orderly.config.consumer import BROKER_LEASE
from orderly.consumer.owning.renewing import renew_now
from orderly.consumer.owning.side_by_side import SideBySide
from orderly.consumer.owning.state_topics import StateTopics
from orderly.consumer.owning.tenure import QueueTenure
from orderly.consumer.session import Held, Session, now
from orderly.errors import NotAvailableYet, OrderlyError
from orderly.log import where
from orderly.model import MessageQueue
from orderly.namespace import is_retry_topic
from orderly.ordering.calls import WRITES, Call, LockQueues, UnlockQueues, converse
from orderly.ordering.crashes.crashes import Crashes
from orderly.ordering.crashes.suspects import Suspects
from orderly.ordering.flow import queue_limits
from orderly.ordering.handover import Begin, find_start
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.rebalance import by_broker
from orderly.ordering.start import for_later_queue
from orderly.ordering.state.fence import Fence
from orderly.ordering.state.inheritance import Inheritance, take_over
from orderly.protocol.heartbeat import Subscription

_HAND_OVER = 5.0  # seconds: a live owner that has a queue to give back seldom takes longer
_REMIND = 60.0  # seconds until a queue that is still refused is told again
_NEWER_RELEASE = 60.0  # seconds until a queue is tried again whose state this release cannot read
_FAILED = 2.0  # seconds until a take-over that failed is tried again: each leaves two records


@dataclass(slots=True)
class _Refusal:
    """A lock that another client holds: since when, and when a warning is due (seconds)."""

    since: float
    warn_at: float


class Taker:
    """Takes queues for the rebalancer, at all brokers side by side.

    Args:
        session: the consumer's shared state.
        start_pulling: called for each queue taken.
        drop_outdated: gives up what is held otherwise than it is subscribed.
        state_topics: where what is finished ahead is remembered; None: order by queue.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(
        self,
        session: Session,
        start_pulling: Callable[[Held], None],
        drop_outdated: Callable[[], None],
        state_topics: StateTopics | None = None,
    ) -> None:
        self._session = session
        self._start_pulling = start_pulling
        self._drop_outdated = drop_outdated
        self._state_topics = state_topics
        self._known: dict[str, frozenset[MessageQueue]] = {}
        self._not_before: dict[MessageQueue, float] = {}
        self._refused: dict[MessageQueue, _Refusal] = {}
        self.steps = SideBySide(f"taking-{session.group}", session.attention)

    def know(self, topic: str, queues: Collection[MessageQueue]) -> None:
        """Note the queues a topic had when it was first looked at; others are later ones."""
        self._known.setdefault(topic, frozenset(queues))

    def forget(self, topics: Collection[str]) -> None:
        """Forget what was noted of topics that are no longer subscribed."""
        for topic in topics:
            self._known.pop(topic, None)

    def with_state(self, topic: str, queues: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Those of `queues` that may be taken: by key, only where the state can be kept.

        Looked at in every round, so that a state topic that was deleted is made again.
        """
        if self._state_topics is None or not self._session.by_key(topic):
            return frozenset(queues)
        ready = self._state_topics.ready(queues)
        return frozenset(q for q in ready if self._not_before.get(q, 0.0) <= now())

    def take(
        self, queues: tuple[MessageQueue, ...], subscription: Subscription
    ) -> list[MessageQueue]:
        """Lock and start `queues`, with one lock request a broker; returns those taken.

        Brokers that take long go on by themselves: the rebalancer is called when one has answered,
        and what it gave is announced in the next round. Until then nothing else is taken there.
        """
        wanted, topic = frozenset(queues), subscription.topic
        for queue in [q for q in tuple(self._refused) if q.topic == topic and q not in wanted]:
            self._refused.pop(queue, None)
        steps = {
            name: partial(self._take, LockQueues(name, of_broker), subscription)
            for name, of_broker in by_broker(queues).items()
        }
        self.steps.run(steps)
        self.announce()
        return [queue for queue in queues if self._session.find(queue) is not None]

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
                reopened = held.owned.wants_bodies(now())
            if reopened:
                self._start_pulling(held)

    def announce(self) -> None:
        """Begin what was taken. The program is told first: what its hook prepares must be there.

        On the rebalancer's thread: no two hooks are called at once.
        """
        begun = [held for held in self._session.held() if held.tenure is not None]
        taken = [held for held in begun if not held.announced]
        if not taken:
            return
        for topic in {held.queue.topic for held in taken}:
            self.split_limits(topic)
        for held in taken:
            held.introduced = True
        self._session.hooks.tell("assigned", self._session.log, [held.queue for held in taken])
        self._drop_outdated()  # what was subscribed otherwise meanwhile
        for held in taken:
            held.announced = True
            self._start_pulling(held)

    def _take(self, call: LockQueues, subscription: Subscription) -> None:
        """Take queues of one broker, one after another; those that are held meanwhile are not."""
        held = {held.queue for held in self._session.held()}
        queues = tuple(queue for queue in call.queues if queue not in held)
        if not queues:
            return
        try:
            self._lock(LockQueues(call.broker_name, queues), subscription)
        except OrderlyError as error:
            self._session.log.warning("lock.not_taken", broker=call.broker_name, error=str(error))

    def _lock(self, call: LockQueues, subscription: Subscription) -> None:
        asked_at = now()
        granted = self._session.perform(call)
        for queue in granted:
            self._refused.pop(queue, None)
        self._tell_refused([queue for queue in call.queues if queue not in granted], asked_at)
        if self._session.closing:
            self._give_back(*granted)
            return
        for queue in call.queues:
            if queue in granted:
                self._begin(queue, asked_at, subscription)

    def _tell_refused(self, refused: list[MessageQueue], at: float) -> None:
        """Say once what others hold; warn when it lasts longer than a hand-over, and remind.

        The lock of an owner that died is free BROKER_LEASE after its last renewal, and that was
        before the first refusal.
        """
        fresh = [queue for queue in refused if queue not in self._refused]
        waiting = []
        for queue in refused:
            warn_at = math.inf if is_retry_topic(queue.topic) else at + _HAND_OVER
            waiting.append(self._refused.setdefault(queue, _Refusal(at, warn_at)))
        due = [it for it in waiting if it.warn_at <= at]
        if not fresh and not due:
            return
        for it in due:
            it.warn_at = at + _REMIND
        tell = self._session.log.warning if due else self._session.log.info
        tell(
            "lock.held_by_another",
            topic=refused[0].topic,
            broker=refused[0].broker_name,
            queue_ids=[queue.queue_id for queue in refused],
            seconds=round(at - min(it.since for it in waiting), 1),
            free_within=round(max(0.0, max(it.since for it in waiting) + BROKER_LEASE - at), 1),
        )

    def _begin(self, queue: MessageQueue, asked_at: float, subscription: Subscription) -> None:
        try:
            inherited, asked_at = self._inherit(queue, asked_at)
        except OrderlyError as error:
            # Without a certain start there is no pull; the next round begins anew.
            at = where(self._session.group, queue)
            self._session.log.warning("queue.start_unknown", **at, error=str(error))
            newer = isinstance(error, NotAvailableYet)
            self._not_before[queue] = now() + (_NEWER_RELEASE if newer else _FAILED)
            inherited = None
        if inherited is None:
            self._give_back(queue)
            return
        config, by_key = self._session.config, self._session.by_key(queue.topic)
        owned = OwnedQueue(
            queue,
            inherited.start,
            Lease(asked_at, math.inf if config.broadcasting else config.lock_trust),
            max_messages=config.pull_threshold,
            max_bytes=config.pull_threshold_bytes,
            by_key=by_key,
            batch_size=config.batch_size,
            max_runs=config.concurrency if by_key else 1,
            max_span=config.max_span,
            finished=inherited.finished,
            fence=inherited.fence,
            kept=inherited.kept,
            generation=0 if inherited.memory is None else inherited.memory.generation,
            suspects=Suspects(inherited.crashes, inherited.start, inherited.end),
        )
        held = self._session.add(owned, subscription, inherited.memory)
        self._report(held, inherited)
        if now() - asked_at >= config.lock_interval / 2:  # or it runs out before the next round
            with contextlib.suppress(OrderlyError):
                renew_now(self._session, held)
        held.tenure = QueueTenure(self._session, held)  # now it can be announced

    def _inherit(self, queue: MessageQueue, asked_at: float) -> tuple[Inheritance | None, float]:
        """What the queue goes on with, and when its lock was last asked for.

        The inheritance is None if the queue is not ours. A lock that may have run out is not
        renewed: somebody else may have had it in between.
        """
        session, position = self._session, self._position(queue)

        def perform(call: Call) -> Any:
            nonlocal asked_at
            begun = now()
            late = begun - asked_at >= session.config.lock_trust
            if late and isinstance(call, (*WRITES, LockQueues)):
                raise OrderlyError("the queue's lock may have run out by now")
            answer = session.perform(call)
            if isinstance(call, LockQueues):  # whoever asked gives up if it is refused
                asked_at = begun
            return answer

        if self._state_topics is None or not session.by_key(queue.topic):
            known = session.known.get(queue)
            begin = converse(find_start(queue, position, known), perform)
            sent = () if known is None else known.sent
            fence = Fence(begin.start, sent, begin.landmark, now())
            return Inheritance(begin.start, fence, begin), asked_at
        topics, client_id = self._state_topics, session.client.client_id
        state_queue, park_queue = topics.queue_of(queue), topics.park_queue_of(queue)
        dialogue = take_over(queue, state_queue, park_queue, client_id, position, now=now())
        return converse(dialogue, perform), asked_at

    def _report(self, held: Held, inherited: Inheritance) -> None:
        token = None if inherited.memory is None else inherited.memory.fencing_token
        ahead = sum(end - start for start, end in inherited.finished)
        details: dict[str, object] = {}
        if token is not None:
            details = {"token": token, "finished_ahead": ahead, "unclean": inherited.unclean}
            details["parked_keys"] = len(inherited.kept.parked)
        held.log.info("queue.assigned", start=inherited.start, **details)
        _report_begin(held, inherited.begin)
        _report_crashes(held, inherited.crashes)
        if inherited.reset:
            held.log.warning(
                "offset.set_by_another",
                start=inherited.start,
            )
        if inherited.damaged:
            held.log.error(
                "state.damaged",
                start=inherited.start,
            )
        if inherited.rebuilt and inherited.kept.parked:
            held.log.warning(
                "state.rebuilt",
                parked_keys=len(inherited.kept.parked),
            )

    def _position(self, queue: MessageQueue) -> str | datetime:
        position = self._session.consume_from
        known = queue in self._known.get(queue.topic, (queue,))
        return position if known else for_later_queue(position)

    def _give_back(self, *queues: MessageQueue) -> None:
        with contextlib.suppress(OrderlyError):  # then the broker frees them within 60 s
            for broker_name, of_broker in by_broker(sorted(queues)).items():
                self._session.perform(UnlockQueues(broker_name, of_broker))


def _report_begin(held: Held, begin: Begin) -> None:
    """Warn of what nobody would notice: messages left out, or handled from another offset on."""
    if begin.former is not None:
        held.log.warning("topic.recreated", former=begin.former, start=begin.start)
    elif begin.forgotten:
        held.log.warning("offset.forgotten", start=begin.start)
    elif begin.passed_over is not None:
        minimum, start = begin.passed_over
        held.log.warning("queue.begins_behind", minimum=minimum, start=start)


def _report_crashes(held: Held, crashes: Crashes) -> None:
    suspects = held.owned.suspects
    if suspects.on:
        window = [held.owned.offset, suspects.end]
        held.log.warning("crash_loop.begins", deaths=crashes.deaths, window=window)
    for offset, deaths in crashes.suspects:
        held.log.warning("message.suspected", offset=offset, deaths=deaths)
