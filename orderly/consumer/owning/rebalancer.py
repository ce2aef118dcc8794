"""Decides with the other members who owns which queue, and has the difference carried out.

A round runs every 20 s, when the broker says that the members changed, at the start, and when a
queue needs attention. One topic's failure never stops the others, and a failed question or a
raising strategy keeps the assignment as it is. Java: RebalanceImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from orderly.consumer.company import Company
from orderly.consumer.owning.releasing import Releaser
from orderly.consumer.owning.taking import Taker
from orderly.consumer.session import Outlook, Session
from orderly.errors import OrderlyError, TopicNotFound
from orderly.model import MessageQueue
from orderly.namespace import is_retry_topic
from orderly.ordering.allocation import Allocation
from orderly.ordering.drop import Drop
from orderly.ordering.rebalance import Plan, my_share, plan

Answer = TypeVar("Answer")

RETRY_SOON = 0.5  # seconds until the next round when a queue is still missing or leaving (as Java)
_ROUNDS_TO_JOIN = 20  # rounds without being listed as a member before it is worth a warning


class Rebalancer:
    """Runs rounds on one thread.

    Args:
        session: the consumer's shared state.
        allocate: who gets which queues.
        taker, releaser: carry the difference out.
        again: asks for another round after some seconds.
        company: looks at members that join; None: none can disturb us.
    """

    def __init__(
        self,
        session: Session,
        allocate: Allocation,
        taker: Taker,
        releaser: Releaser,
        again: Callable[[float], None],
        *,
        company: Company | None = None,
    ) -> None:
        self._session = session
        self._allocate = allocate
        self._taker = taker
        self._releaser = releaser
        self._again = again
        self._company = company
        self._idle_reported: set[str] = set()
        self._unlisted = 0

    def round(self) -> None:
        """Do one round; asks for another one soon if something is left to do."""
        session = self._session
        self._taker.announce()  # what a broker gave that took long
        self._releaser.drop_outdated()
        self._releaser.drop_stalled()
        self._forget_topics()
        self._releaser.release_idle()  # first: what became ours again can then be taken at once
        found = self._each(session.subscriptions, self._look)
        outlooks = {topic: outlook for topic, outlook in found.items() if outlook is not None}
        self._tell_changes(outlooks)
        done = self._each(outlooks, lambda topic: self._rebalance(topic, outlooks[topic]))
        if session.closing:
            return
        settled = self._releaser.release_idle()
        if not settled or len(outlooks) < len(found) or not all(done.values()):
            self._again(RETRY_SOON)

    def _each(self, topics: Iterable[str], step: Callable[[str], Answer]) -> dict[str, Answer]:
        """What `step` answers for each topic, without those for which it failed."""
        answers = {}
        for topic in tuple(topics):
            if self._session.closing:
                break
            try:
                answers[topic] = step(topic)
            except OrderlyError as error:
                self._report(topic, error)
        return answers

    def _forget_topics(self) -> None:
        session = self._session
        self._taker.forget(session.outlook.keys() - session.subscriptions.keys())
        session.outlook = {t: o for t, o in session.outlook.items() if t in session.subscriptions}

    def _tell_changes(self, outlooks: Mapping[str, Outlook]) -> None:
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
        self._taker.know(topic, outlook.queues)
        session.outlook = {**session.outlook, topic: outlook}
        self._report_idle(topic, outlook)
        changes = self._plan(topic, outlook.share)
        for held in session.held():
            if held.queue in changes.revoked:
                self._releaser.drop(held, Drop.REVOKED)
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
        if self._company is not None and not is_retry_topic(topic):
            self._company.changed(members)
        return Outlook(queues, share, members)

    def _plan(self, topic: str, share: frozenset[MessageQueue]) -> Plan:
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
        tell = log.warning if self._unlisted == _ROUNDS_TO_JOIN else log.info
        tell(
            "member.not_listed",
            subscribed=topic,
            members=tuple(members),
            hint="if this stays, create the group at the broker",
        )

    def _report_idle(self, topic: str, outlook: Outlook) -> None:
        if outlook.share:
            self._idle_reported.discard(topic)
        elif topic not in self._idle_reported and not is_retry_topic(topic):
            self._idle_reported.add(topic)
            self._session.log.warning(
                "member.idle",
                subscribed=topic,
                members=len(outlook.members),
            )
