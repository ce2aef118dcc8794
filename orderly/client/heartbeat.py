"""Membership: which groups this client belongs to, and the heartbeats that keep it a member.

A broker knows members by socket, so heartbeats go out on the one connection per broker that
everything else uses. They are repeated every 30 s, at once when a connection is new, and soon
after one was lost or a heartbeat failed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from orderly.client.background import Periodic
from orderly.client.calls import Calls
from orderly.client.connection import Connection
from orderly.client.peer_requests import GroupAnswers
from orderly.client.routes import Routes
from orderly.config import parse_consume_from
from orderly.errors import LifecycleError, NoPermission, OrderlyError, TopicNotFound
from orderly.interruptions import shielded
from orderly.log import get_logger
from orderly.namespace import is_retry_topic
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    Heartbeat,
    MessageModel,
    ProducerData,
    Subscription,
    UnregisterClient,
    encode_heartbeat,
)

_log = get_logger("orderly.client")
_REJOIN_AFTER = 1.0  # seconds from the loss of a connection to the heartbeat on a new one
_RETRY_AFTER = 3.0  # seconds; a broker that boots accepts connections before it answers
_LEAVE_TIMEOUT = 1.0  # seconds; a broker that hangs must not hold up a close for long


@dataclass(frozen=True, slots=True)
class _Member:
    """A consumer group of this client."""

    subscriptions: Callable[[], tuple[Subscription, ...]]
    on_members_changed: Callable[[], object]
    consume_from: ConsumeFromWhere
    model: MessageModel
    answers: GroupAnswers | None


class Heartbeats:
    """The groups of one client. Thread-safe.

    Args:
        calls, routes: of the client.
        client_id: sent with each heartbeat; unique among all clients of the cluster.
        interval: seconds between heartbeats; a broker forgets a silent member after 120.
    """

    def __init__(self, calls: Calls, routes: Routes, client_id: str, interval: float) -> None:
        self._calls = calls
        self._routes = routes
        self._client_id = client_id
        self._lock = threading.Lock()
        self._consumers: dict[str, _Member] = {}
        self._producers: set[str] = set()
        # Held while anything is sent to brokers: a heartbeat that overtook the end of a membership
        # would bring it back for two minutes.
        self._round = threading.Lock()
        self._round_thread: int | None = None
        self._failing: set[str] = set()
        self._joined: set[str] = set()  # the addresses at which we are, or may be, a member
        self._closing = False
        self._timer = Periodic("heartbeat", interval, self.heartbeat_now, first_after=interval)

    def start(self) -> None:
        """Begin to send heartbeats."""
        self._timer.start()

    def close(self) -> None:
        """Leave all groups and end the heartbeats. Idempotent."""
        self._closing = True
        self._timer.stop(timeout=5.0)
        with self._lock:
            consumers, producers = tuple(self._consumers), tuple(self._producers)
        for group in consumers:
            self.unregister_consumer(group)
        for group in producers:
            self.unregister_producer(group)

    def register_consumer(
        self,
        group: str,
        *,
        subscriptions: Callable[[], tuple[Subscription, ...]],
        on_members_changed: Callable[[], object],
        consume_from: str = "last",
        broadcasting: bool = False,
        answers: GroupAnswers | None = None,
    ) -> None:
        """Make the client a member of a consumer group, from the next heartbeat on.

        Args:
            group: its name.
            subscriptions: asked for with each heartbeat. It replaces the whole group's at the
                broker; the group's %RETRY% topic belongs into it.
            on_members_changed: called when a broker says so; must not block.
            consume_from: as in ConsumerConfig; the broker only shows it to administrators.
            broadcasting: each member gets all messages; brokers then keep no offsets for it.
            answers: what this member answers to brokers; None: it refuses to answer.

        Raises:
            LifecycleError: this client is a member already.
        """
        model = MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING
        where = _where(consume_from)
        member = _Member(subscriptions, on_members_changed, where, model, answers)
        with self._lock:
            if group in self._consumers:
                raise LifecycleError(
                    f"this client already has a consumer of group {group!r}; give the second"
                    " consumer its own client"
                )
            self._consumers[group] = member

    def register_producer(self, group: str) -> None:
        """Make the client a member of a producer group, from the next heartbeat on.

        Raises:
            LifecycleError: this client is a member already.
        """
        with self._lock:
            if group in self._producers:
                raise LifecycleError(
                    f"this client already has a producer of group {group!r}; give the second"
                    " producer another group, or its own client"
                )
            self._producers.add(group)

    def producers(self) -> tuple[str, ...]:
        """The producer groups of this client."""
        with self._lock:
            return tuple(sorted(self._producers))

    def unregister_consumer(self, group: str) -> None:
        """Leave a consumer group at the brokers with a connection. Locks stay.

        A broker that does not answer is logged; it notices by the end of the connection. Without
        effect if the client is no member.
        """
        with self._round:
            with self._lock:
                known = self._consumers.pop(group, None) is not None
            if known:
                self._leave(UnregisterClient(client_id=self._client_id, consumer_group=group))

    def unregister_producer(self, group: str) -> None:
        """Leave a producer group; as `unregister_consumer`."""
        with self._round:
            with self._lock:
                known = group in self._producers
                self._producers.discard(group)
            if known:
                self._leave(UnregisterClient(client_id=self._client_id, producer_group=group))

    def heartbeat_now(self) -> NoPermission | None:
        """Send a heartbeat to all brokers of all known routes, and wait for their answers.

        Routes of subscribed topics are fetched if need be. What fails is logged: one broker's
        trouble is not the others', and the next round comes.

        Returns:
            A refusal, if every broker has refused us.
        """
        return shielded(self._beat_all)

    def _beat_all(self) -> NoPermission | None:
        with self._round:
            heartbeat = self._snapshot()
            if not heartbeat.consumers and not heartbeat.producers:
                return None
            self._round_thread = threading.get_ident()
            try:
                self._learn_routes(heartbeat)
                failures = self._beat(encode_heartbeat(heartbeat))
                self._leave_former(heartbeat)
            finally:
                self._round_thread = None
        refusals = [failure for failure in failures if isinstance(failure, NoPermission)]
        return refusals[0] if refusals and len(refusals) == len(failures) else None

    def connected(self, connection: Connection) -> None:
        """Note a new connection, on the thread that opened it: a broker must learn who we are."""
        mine = threading.get_ident() == self._round_thread  # this heartbeat follows anyway
        if not mine and connection.address in self._routes.broker_addresses():
            self._timer.wake()

    def disconnected(self, connection: Connection) -> None:
        """Note the loss of a connection: that broker has forgotten us. Never blocks."""
        if connection.address in self._routes.broker_addresses():
            self._timer.wake_within(_REJOIN_AFTER)

    def members_changed(self, group: str) -> None:
        """Pass on a broker's word that the group's members changed."""
        member = self._consumers.get(group)
        if member is not None:
            member.on_members_changed()

    def concerns(self, group: str) -> bool:
        """Whether a broker's word about `group` is for a member here; logged if not."""
        if group in self._consumers:
            return True
        _log.debug("group.foreign_changed", group=group)
        return False

    def answers_of(self, group: str) -> GroupAnswers | None:
        """The member of `group` that answers brokers; None if no member does."""
        member = self._consumers.get(group)
        return member.answers if member else None

    def _snapshot(self) -> Heartbeat:
        with self._lock:
            consumers, producers = dict(self._consumers), sorted(self._producers)
        return Heartbeat(
            self._client_id,
            tuple(map(ProducerData, producers)),
            tuple(
                ConsumerData(
                    group,
                    member.subscriptions(),
                    message_model=member.model,
                    consume_from=member.consume_from,
                )
                for group, member in consumers.items()
            ),
        )

    def _learn_routes(self, heartbeat: Heartbeat) -> None:
        for topic in {s.topic for data in heartbeat.consumers for s in data.subscriptions}:
            try:
                self._routes.get(topic)
            except TopicNotFound as error:
                if not is_retry_topic(topic):  # brokers make that one on a heartbeat
                    _log.warning("topic.not_found", topic=topic, error=str(error))
            except OrderlyError as error:
                _log.warning("route.not_read", topic=topic, error=str(error))

    def _leave_former(self, heartbeat: Heartbeat) -> None:
        """Leave the groups where no route leads any more.

        Routes of another proxy have other addresses. The one before would list this member until
        its connection ends, and proxies that it informed for two minutes longer.
        """
        former = self._joined.difference(self._routes.broker_addresses())
        self._joined -= former
        for data in heartbeat.consumers:
            header = UnregisterClient(client_id=self._client_id, consumer_group=data.group)
            self._leave_at(former, header)
        for producer in heartbeat.producers:
            header = UnregisterClient(client_id=self._client_id, producer_group=producer.group)
            self._leave_at(former, header)

    def _beat(self, body: bytes) -> list[OrderlyError | None]:
        """Send it to all brokers; returns how that went with each."""
        if self._closing:  # brokers that hang must not hold up the close
            return []
        addresses = self._routes.broker_addresses()
        self._joined.update(addresses)
        command = partial(request, RequestCode.HEART_BEAT, body=body)
        found = self._calls.ask_all(addresses, command, "a heartbeat")
        for address, error in found.items():
            if error is None:
                self._failing.discard(address)
                continue
            emit = _log.debug if address in self._failing else _log.warning
            emit("heartbeat.failed", address=address, error=str(error))
            self._failing.add(address)
            self._timer.wake_within(_RETRY_AFTER)
        return list(found.values())

    def _leave(self, header: UnregisterClient) -> None:
        self._leave_at(self._joined.union(self._routes.broker_addresses()), header)

    def _leave_at(self, addresses: Iterable[str], header: UnregisterClient) -> None:
        command = partial(request, header.code, to_ext(header))
        connected = filter(self._calls.connected, addresses)
        what = "the end of a membership"
        found = self._calls.ask_all(connected, command, what, timeout=_LEAVE_TIMEOUT)
        for address, error in found.items():
            if error is not None:
                _log.warning("member.not_unregistered", address=address, error=str(error))


def _where(consume_from: str) -> ConsumeFromWhere:
    start = parse_consume_from(consume_from)
    if isinstance(start, datetime):
        return ConsumeFromWhere.TIMESTAMP
    return ConsumeFromWhere.FIRST_OFFSET if start == "first" else ConsumeFromWhere.LAST_OFFSET
