"""Rebalance: who owns which queue, taking queues over, and giving queues up.

A round runs every 20 s, when the broker says that the members changed, at the start, and when a
queue needs attention. One topic's failure never stops the others, and a failed question or a
raising strategy keeps the assignment as it is. Java: RebalanceImpl.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from orderly.client.preflight import not_readable
from orderly.client.state_topics import StateTopics
from orderly.clock import now
from orderly.config.consumer import BROKER_LEASE
from orderly.consumer.broker_threads import BrokerThreads
from orderly.consumer.first_looks import FirstLooks
from orderly.consumer.group_order_check import GroupOrderCheck
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.renewal import HeldOwnership, announce_loss, renew_now
from orderly.consumer.session import HeldQueue, Outlook, Session, Untaken, longest_handler
from orderly.errors import NotAvailableYet, OrderlyError, RemotingError, TopicNotFound
from orderly.log import where
from orderly.model import MessageQueue
from orderly.namespace import is_retry_topic
from orderly.ordering.allocation import Allocation
from orderly.ordering.broker_calls import (
    WRITES,
    Call,
    FirstLook,
    LockQueues,
    UnlockQueues,
    converse,
)
from orderly.ordering.crashes import Crashes, Suspects
from orderly.ordering.fence import Fence
from orderly.ordering.owned_queue import NOT_OURS, Drop, Lease, OwnedQueue
from orderly.ordering.ownership import Inheritance, take_over
from orderly.ordering.pull_window import queue_limits
from orderly.ordering.rebalance_plan import RebalancePlan, by_broker, my_share, plan
from orderly.ordering.repeats import Repeats
from orderly.ordering.start import StartPosition, find_start
from orderly.protocol.heartbeat import Subscription

Answer = TypeVar("Answer")

RETRY_SOON = 0.5  # seconds until the next round when a queue is still missing or leaving (as Java)
_WITHOUT_NOTICES = 2.0  # seconds: a proxy in cluster mode sends no notice when members change
_ROUNDS_TO_JOIN = 20  # rounds without being listed as a member before it is worth a warning


class Membership(Protocol):
    """Of the group, for as long as this member can handle anything."""

    def join(self) -> object:
        """Become a member; without effect for one that is."""

    def leave(self) -> None:
        """End it; without effect if there is none."""


class Rebalancer:
    """Runs rounds on one thread.

    Args:
        session: the consumer's shared state.
        allocate: who gets which queues.
        taker, releaser: carry the difference out.
        again: asks for another round after some seconds.
        membership: of the group; it ends while the engine does not run.
        order_check: looks at members that join; None: none can disturb us.
    """

    def __init__(
        self,
        session: Session,
        allocate: Allocation,
        taker: Taker,
        releaser: Releaser,
        again: Callable[[float], None],
        *,
        membership: Membership,
        order_check: GroupOrderCheck | None = None,
    ) -> None:
        self._session = session
        self._allocate = allocate
        self._taker = taker
        self._releaser = releaser
        self._again = again
        self._membership = membership
        self._order_check = order_check
        self._without: dict[str, bool] = {}  # topics without a queue for us, and whether any is
        self._unlisted = 0

    def round(self) -> None:
        """Do one round; asks for another one soon if something is left to do."""
        session = self._session
        if session.standing:
            self._withdraw()
            return
        self._membership.join()
        self._taker.announce()  # what a broker gave that took long
        self._releaser.drop_outdated()
        self._releaser.drop_stalled()
        self._forget_topics()
        self._releaser.release_idle()  # first: what became ours again can then be taken at once
        found = self._each(session.subscriptions, self._look)
        outlooks = {topic: outlook for topic, outlook in found.items() if outlook is not None}
        self._heartbeat_on_change(outlooks)
        done = self._each(outlooks, lambda topic: self._rebalance(topic, outlooks[topic]))
        if session.closing:
            return
        settled = self._releaser.release_idle()
        if not settled or len(outlooks) < len(found) or not all(done.values()):
            self._again(RETRY_SOON)
        elif session.client.behind_proxy:
            self._again(_WITHOUT_NOTICES)

    def _withdraw(self) -> None:
        """Give all queues up, and leave the group: others can handle what this member cannot."""
        self._releaser.drop_all(Drop.STANDING)
        settled = self._releaser.release_idle()
        self._membership.leave()
        if not settled:
            self._again(RETRY_SOON)

    def _each(self, topics: Iterable[str], step: Callable[[str], Answer]) -> dict[str, Answer]:
        """What `step` answers for each topic, without those for which it failed."""
        answers = {}
        for topic in tuple(topics):
            if self._session.closing:
                break
            try:
                answers[topic] = step(topic)
                self._session.unseen.pop(topic, None)
            except OrderlyError as error:
                self._session.unseen[topic] = error
                self._report(topic, error)
        return answers

    def _forget_topics(self) -> None:
        session = self._session
        self._taker.first_looks.forget(session.outlook.keys() - session.subscriptions.keys())
        session.outlook = {t: o for t, o in session.outlook.items() if t in session.subscriptions}
        for topic in session.unseen.keys() - session.subscriptions.keys():
            del session.unseen[topic]

    def _heartbeat_on_change(self, outlooks: Mapping[str, Outlook]) -> None:
        """Heartbeat at once if our share of a topic is another one.

        Before anything is handled: a broker (5.5.0) that reads a heartbeat after its connection
        has ended lists that member for 130 s, and a message may end the process that gets it.
        """
        known = self._session.outlook
        if any(t not in known or o.share != known[t].share for t, o in outlooks.items()):
            self._session.client.heartbeat.heartbeat_now()

    def _rebalance(self, topic: str, outlook: Outlook) -> bool:
        """Carry out a topic's changes; returns whether there is nothing left to do."""
        session = self._session
        subscription = session.subscriptions.get(topic)
        if subscription is None:  # unsubscribed while this round ran
            return True
        session.outlook = {**session.outlook, topic: outlook}
        self._report_idle(topic, outlook)
        changes = self._plan(topic, outlook.share)
        for held in session.held():
            if held.queue in changes.revoked:
                self._releaser.drop(held, Drop.REVOKED)
        self._taker.forget_others(topic, outlook.share)
        usable = self._taker.with_state(topic, outlook.share)
        gained = tuple(queue for queue in changes.gained if queue in usable)
        taken = self._taker.take(gained, subscription)
        if changes.revoked:
            self._taker.split_limits(topic)
        return len(taken) == len(changes.gained)

    def _look(self, topic: str) -> Outlook | None:
        """Ask who is there; None: this member is not listed, so nothing is certain."""
        session = self._session
        queues = session.client.routes.get(topic).read_queues()
        if session.config.broadcasting:
            return Outlook(queues, frozenset(queues))
        members = session.client.brokers.consumer_ids(session.group, topic)
        share = my_share(session.client.client_id, queues, members, self._allocate)
        if share is None:
            self._report_unlisted(topic, members)
            return None
        self._unlisted = 0
        if self._order_check is not None and not is_retry_topic(topic):
            self._order_check.changed(members)
        return Outlook(queues, share, members)

    def _plan(self, topic: str, share: frozenset[MessageQueue]) -> RebalancePlan:
        of_topic = [held for held in self._session.held() if held.queue.topic == topic]
        leaving = {held.queue for held in of_topic if held.owned.dropped is not None}
        active = {held.queue for held in of_topic} - leaving
        return plan(share, active, leaving)

    def _report(self, topic: str, error: OrderlyError) -> None:
        if is_retry_topic(topic) and isinstance(error, TopicNotFound):
            return  # the broker makes the retry topic with the group's first heartbeat
        self._session.log.warning("rebalance.failed", subscribed=topic, error=str(error))

    def _report_unlisted(self, topic: str, members: Iterable[str]) -> None:
        """The broker drops the heartbeats of a group it may not create, without saying so."""
        self._unlisted += 1
        log = self._session.log
        emit = log.warning if self._unlisted == _ROUNDS_TO_JOIN else log.info
        emit(
            "member.not_listed",
            subscribed=topic,
            members=tuple(members),
            hint="if this lasts, create the group at the broker",
        )

    def _report_idle(self, topic: str, outlook: Outlook) -> None:
        """Warn once of a topic of which this member gets nothing: others have it, or nobody can."""
        before = self._without.pop(topic, None)
        if outlook.share or is_retry_topic(topic):
            return
        readable = self._without[topic] = bool(outlook.queues)
        if before is readable:
            return
        log, members = self._session.log, len(outlook.members)
        if readable:
            log.warning("member.idle", subscribed=topic, members=members)
        else:
            log.error("topic.not_readable", subscribed=topic, hint=not_readable(topic))


# --- taking queues over ---------------------------------------------------------------------------
# Lock at the broker, find the start, begin to pull. A queue that another member has locked is left
# out and tried again in the next round; so is one whose start is not certain.


_HAND_OVER = 5.0  # seconds: a live owner that has a queue to give back seldom takes longer
_WARN_AGAIN = 60.0  # seconds until the warning of a queue that is still refused is repeated
_NEWER_RELEASE = 60.0  # seconds until a queue is tried again whose state this release cannot read
_FAILED = 2.0  # seconds until a take-over that failed is tried again: each leaves two records


class Taker:
    """Takes queues for the rebalancer, from all brokers in parallel.

    Args:
        session: the consumer's shared state.
        start_pulling: called for each queue taken.
        drop_outdated: gives up what is held otherwise than it is subscribed.
        state_topics: where what is finished ahead is remembered; None: order by queue.

    Attributes:
        first_looks: in which topics the group is new.
        steps: what is under way at brokers.
    """

    def __init__(
        self,
        session: Session,
        start_pulling: Callable[[HeldQueue], None],
        drop_outdated: Callable[[], None],
        state_topics: StateTopics | None = None,
    ) -> None:
        self._session = session
        self._start_pulling = start_pulling
        self._drop_outdated = drop_outdated
        self._state_topics = state_topics
        self.first_looks = FirstLooks(session, state_topics)
        self._not_before: dict[MessageQueue, float] = {}
        self.steps = BrokerThreads(f"taking-{session.group}", session.attention)

    def forget_others(self, topic: str, share: Collection[MessageQueue]) -> None:
        """Forget what kept queues from being taken that are no longer ours by allocation."""
        untaken = self._session.untaken
        for queue in [q for q in tuple(untaken) if q.topic == topic and q not in share]:
            untaken.pop(queue, None)

    def with_state(self, topic: str, queues: Collection[MessageQueue]) -> frozenset[MessageQueue]:
        """Those of `queues` that may be taken: by key, only where the state can be kept.

        Looked at in every round, so that a state topic that was deleted is made again.
        """
        if self._state_topics is None or not self._session.by_key(topic):
            return frozenset(queues)
        ready, at = frozenset(self._state_topics.ready(queues)), now()
        for queue in frozenset(queues) - ready:
            if fault := self._state_topics.fault(queue):  # logged there
                self._session.untaken[queue] = Untaken(at, at, fault)
        return frozenset(q for q in ready if self._not_before.get(q, 0.0) <= at)

    def take(
        self, queues: tuple[MessageQueue, ...], subscription: Subscription
    ) -> list[MessageQueue]:
        """Lock and start `queues`, with one lock request a broker; returns those taken.

        Brokers that take long go on by themselves: the rebalancer is called when one has answered,
        and what it gave is announced in the next round. Until then nothing else is taken there.
        """
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
        """Begin what was taken, after the program's hook: what that prepares must be there.

        On the rebalancer's thread: no two hooks are called at once.
        """
        begun = [held for held in self._session.held() if held.ownership is not None]
        taken = [held for held in begun if not held.announced]
        if not taken:
            return
        for topic in {held.queue.topic for held in taken}:
            self.split_limits(topic)
        for held in taken:
            held.introduced = True
        self._session.hooks.notify("assigned", self._session.log, [held.queue for held in taken])
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
            worth_it = [self._failed(queue, error) for queue in queues]
            if any(worth_it):
                name = call.broker_name
                self._session.log.warning("lock.not_taken", broker=name, error=str(error))

    def _failed(self, queue: MessageQueue, error: OrderlyError) -> bool:
        """Note why a queue was not taken; returns whether that is worth a warning.

        Once for each cause: rounds try it again twice a second.
        """
        at, before = now(), self._session.untaken.get(queue)
        again = before is not None and str(before.error) == str(error)
        if before is not None and again and at < before.warn_at:
            return False
        since = before.since if before is not None and again else at
        self._session.untaken[queue] = Untaken(since, at + _WARN_AGAIN, error)
        return True

    def _lock(self, call: LockQueues, subscription: Subscription) -> None:
        asked_at = now()
        granted = self._session.perform(call)
        self._log_refused([queue for queue in call.queues if queue not in granted], asked_at)
        if self._session.closing:
            self._give_back(*granted)
            return
        for queue in call.queues:
            if queue in granted:
                self._begin(queue, asked_at, subscription)

    def _log_refused(self, refused: list[MessageQueue], at: float) -> None:
        """Log once what others hold; warn when it lasts longer than a hand-over, again and again.

        The lock of an owner that died is free BROKER_LEASE after its last renewal, and that was
        before the first refusal.
        """
        fresh, waiting = [], []
        for queue in refused:
            it = self._session.untaken.get(queue)
            if it is None or it.error is not None:
                fresh.append(queue)
                warn_at = math.inf if is_retry_topic(queue.topic) else at + _HAND_OVER
                it = self._session.untaken[queue] = Untaken(at, warn_at)
            waiting.append(it)
        due = [it for it in waiting if it.warn_at <= at]
        if not fresh and not due:
            return
        for it in due:
            it.warn_at = at + _WARN_AGAIN
        emit = self._session.log.warning if due else self._session.log.info
        emit(
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
            # Without a certain start there is no pull; the next round starts over.
            at = where(self._session.group, queue)
            worth_it = self._failed(queue, error)
            emit = self._session.log.warning if worth_it else self._session.log.debug
            emit("queue.start_unknown", **at, error=str(error))
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
            spacing=config.spacing if by_key else 0.0,
            max_runs=config.concurrency if by_key else 1,
            max_span=config.max_span,
            finished=inherited.finished,
            fence=inherited.fence,
            kept=inherited.kept,
            generation=0 if inherited.memory is None else inherited.memory.generation,
            suspects=Suspects(inherited.crashes, inherited.start, inherited.end),
            repeats=self._repeats(queue, inherited),
        )
        held = self._session.add(owned, subscription, inherited.memory)
        self._session.untaken.pop(queue, None)
        self._report(held, inherited)
        if now() - asked_at >= config.lock_interval / 2:  # or it runs out before the next round
            with contextlib.suppress(OrderlyError):
                renew_now(self._session, held)
        held.ownership = HeldOwnership(self._session, held)  # now it can be announced

    def _repeats(self, queue: MessageQueue, inherited: Inheritance) -> Repeats:
        """What is known of repeated sends; this process may know more of resets than a record."""
        if not self._session.config.skip_repeats:
            return Repeats()
        known, floor = self._session.known.get(queue), inherited.floor
        if known is not None and inherited.begin.former is None:
            floor = max(floor, known.floor)
        return Repeats(floor, inherited.sent_again)

    def _inherit(self, queue: MessageQueue, asked_at: float) -> tuple[Inheritance | None, float]:
        """What the queue goes on with, and when its lock was last asked for.

        The inheritance is None if the queue is not ours. A lock that may have run out is not
        renewed: somebody else may have had it in between.
        """
        session, position = self._session, self._session.consume_from

        def perform(call: Call) -> Any:
            nonlocal asked_at
            if isinstance(call, FirstLook):
                return self.first_looks.new_group(call.queue)
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
            book = () if known is None or begin.floor or begin.former is not None else known.book
            return Inheritance(begin.start, fence, begin, sent_again=book), asked_at
        topics, client_id = self._state_topics, session.client.client_id
        state_queue, park_queue = topics.queue_of(queue), topics.park_queue_of(queue)
        dialogue = take_over(queue, state_queue, park_queue, client_id, position, now=now())
        return converse(dialogue, perform), asked_at

    def _report(self, held: HeldQueue, inherited: Inheritance) -> None:
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

    def _give_back(self, *queues: MessageQueue) -> None:
        with contextlib.suppress(OrderlyError):  # then the broker frees them within 60 s
            for broker_name, of_broker in by_broker(sorted(queues)).items():
                self._session.perform(UnlockQueues(broker_name, of_broker))


def _report_begin(held: HeldQueue, begin: StartPosition) -> None:
    """Warn of what nobody would notice: messages left out, or handled from another offset on."""
    if begin.former is not None:
        held.log.warning("topic.recreated", former=begin.former, start=begin.start)
    elif begin.forgotten:
        held.log.warning("offset.forgotten", start=begin.start)
    elif begin.passed_over is not None:
        minimum, start = begin.passed_over
        held.log.warning("queue.begins_behind", minimum=minimum, start=start)


def _report_crashes(held: HeldQueue, crashes: Crashes) -> None:
    suspects = held.owned.suspects
    if suspects.on:
        window = [held.owned.offset, suspects.end]
        held.log.warning("crash_loop.begins", deaths=crashes.deaths, window=window)
    for offset, deaths in crashes.suspects:
        held.log.warning("message.suspected", offset=offset, deaths=deaths)


# --- giving queues up -----------------------------------------------------------------------------
# Stop handing out, wait for the handlers, save the offset, unlock at once. The lock is kept and
# renewed until the handlers have ended, however long that takes (Java unlocks by force 20 s after
# the last renewal, beside the running handler; here only if `force_unlock_after` says so). At the
# handover's deadline the offset is saved, and the log names which handler runs.


_FOR_GOOD = frozenset({Drop.REVOKED, Drop.CLOSING, Drop.STANDING})
_WORTH_A_WARNING = frozenset({Drop.STALLED, Drop.STANDING})


class Releaser:
    """Gives queues up, at several brokers in parallel. Thread-safe.

    Args:
        session: the consumer's shared state.
        saver: saves offsets before a lock is given back.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session, saver: OffsetSaver) -> None:
        self._session = session
        self._saver = saver
        self.steps = BrokerThreads(f"release-{session.group}", session.attention)
        self._lock = threading.Lock()
        self._released: list[tuple[HeldQueue, str]] = []  # and the hook to call

    def drop(self, held: HeldQueue, reason: Drop) -> None:
        """Stop handing out; what is in hand ends."""
        with held.lock:
            changed = held.owned.drop(reason)
        if changed:
            emit = held.log.warning if reason in _WORTH_A_WARNING else held.log.info
            emit("queue.given_up", reason=reason.value)

    def drop_all(self, reason: Drop) -> None:
        """Stop handing out on every queue."""
        for held in self._session.held():
            self.drop(held, reason)

    def drop_outdated(self) -> None:
        """Give up the queues whose topic is no longer subscribed, or otherwise than they are held.

        From the drop on nothing more is taken in, so no message is filtered by the old tags once
        the new ones are set.
        """
        current = self._session.subscriptions
        for held in self._session.held():
            subscription = current.get(held.queue.topic)
            if subscription is not held.subscription:
                self.drop(held, Drop.RESUBSCRIBED if subscription else Drop.REVOKED)

    def drop_stalled(self) -> None:
        """Give up queues that have not been pulled for two minutes; they are taken again."""
        awake = self._session.client.awake
        for held in self._session.held():
            with held.lock:
                pulled_at = held.owned.pulled_at
                stalled = held.owned.pull_stalled(pulled_at + awake.since(pulled_at))
            if stalled:
                self.drop(held, Drop.STALLED)

    def release_idle(self, deadline: float = math.inf) -> bool:
        """Release each dropped queue that no handler works on; returns whether none is left.

        Brokers that take long go on by themselves; the rebalancer is called when one has answered.

        Args:
            deadline: after it no further queue is begun (seconds, `clock.now`).
        """
        self._notify_losses()
        leaving: dict[HeldQueue, Drop] = {}
        at_brokers: dict[str, list[HeldQueue]] = {}
        for held in self._session.held():
            if held.owned.dropped is not None:
                leaving[held] = held.owned.dropped
                at_brokers.setdefault(held.queue.broker_name, []).append(held)
        steps = {
            name: partial(self._release_all, holds, deadline) for name, holds in at_brokers.items()
        }
        self.steps.run(steps)
        self.notify_released()
        # A queue dropped for any other reason is still ours by allocation: take it again.
        return all(held.released and reason in _FOR_GOOD for held, reason in leaving.items())

    def notify_released(self) -> None:
        """Call the hooks for what was given up, on the caller's thread."""
        with self._lock:
            released, self._released = self._released, []
        for held, hook in released:
            self._session.hooks.notify(hook, held.log, (held.queue,))

    def _release_all(self, holds: Sequence[HeldQueue], deadline: float) -> None:
        """Release queues of one broker; if that does not answer, it is not asked again."""
        silent: str | None = None
        for held in holds:
            if silent is not None and held.owned.dropped is not Drop.LOST:
                held.release_error = silent
            elif now() < deadline and not self._release(held):
                silent = held.release_error

    def _notify_losses(self) -> None:
        """Call the hook at once, even while a handler runs: the program may want to stop that."""
        for held in self._session.held():
            with held.lock:
                lost = held.owned.dropped in NOT_OURS and not held.released
            if lost and held.introduced and not held.loss_notified:
                held.loss_notified = True
                announce_loss(self._session, held, "noticed late")
                self._session.hooks.notify("lost", held.log, (held.queue,))

    def _release(self, held: HeldQueue) -> bool:
        """Release one queue, if no handler works on it; returns whether its broker answers."""
        with held.lock:
            idle, reason = held.owned.idle, held.owned.dropped
        assert reason is not None, "only dropped queues are released"
        forced = not idle and reason is not Drop.LOST and self._waited_out(held, reason)
        if not idle and not forced:
            return True
        if forced:  # before anybody else can have it
            held.lost.set()
            self._session.interrupt(held)
        try:
            with self._session.locking(held.queue.broker_name):
                self._saver.hand_on(held)
                lost = not held.released  # nothing was saved, or unlocked: the lock was gone before
                self._session.remove(held)
        except OrderlyError as error:
            held.failed_releases += 1
            held.release_error = str(error)
            held.log.warning("queue.not_released", error=str(error))
            return not isinstance(error, RemotingError)
        held.log.info("queue.released", reason=reason.value)
        if held.introduced and not held.loss_notified:
            with self._lock:
                self._released.append((held, "lost" if lost else "revoked"))
        return True

    def _waited_out(self, held: HeldQueue, reason: Drop) -> bool:
        """Whether to unlock beside a running handler: only if the user says so, with a warning."""
        config = self._session.config
        force_after = config.force_unlock_after if reason in _FOR_GOOD else None
        if held.left_at is None:
            held.left_at = now()
            held.log.info("queue.release_waits", **longest_handler(held))
        waited = self._session.client.awake.since(held.left_at)
        if force_after is not None and waited >= force_after:
            held.log.error(
                "queue.unlocked_while_running",
                **longest_handler(held),
            )
            return True
        if not held.overdue and waited >= min(config.handover_timeout, config.lock_trust):
            held.overdue = True
            held.log.warning(
                "queue.release_overdue",
                **longest_handler(held),
            )
            self._saver.save(held)
        return False
