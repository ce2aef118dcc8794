"""The topics that keep a group's state: one for each topic consumed with order="key".

A state topic has, on each broker of its source topic, a queue of the same id for each queue there.
It is made, and grown, before queues of the source topic are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orderly.client import Client
from orderly.errors import BrokerError, ConfigError, OrderlyError, RouteError, TopicNotFound
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.ordering.state.topic import state_topic
from orderly.protocol.topic_config import TopicConfig

_BOTH = Permission.READ | Permission.WRITE


@dataclass(frozen=True, slots=True)
class _Finding:
    """How many state queues of a broker can be used, and why not all that are needed."""

    usable: int
    fault: OrderlyError | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found, by broker, when the routes of source and state topic were these."""

    routes: tuple[TopicRoute, TopicRoute | None]
    findings: Mapping[str, _Finding]

    @property
    def faults(self) -> dict[str, OrderlyError]:
        """What is wrong, by broker."""
        return {name: found.fault for name, found in self.findings.items() if found.fault}


class StateTopics:
    """The state topics of one group. Thread-safe; `ensure` and `ready` may block.

    Args:
        client: of the consumer.
        group: as the broker names it.
        create: make and grow the topics; otherwise operators do.
        log: hears of queues that cannot be taken.
    """

    def __init__(self, client: Client, group: str, create: bool, log: Any) -> None:
        self._client = client
        self._group = group
        self._create = create
        self._log = log
        self._looks: dict[str, _Look] = {}

    def queue_of(self, queue: MessageQueue) -> MessageQueue:
        """The state queue of a source queue: on the same broker, with the same id."""
        return replace(queue, topic=state_topic(self._group, queue.topic))

    def ensure(self, topic: str) -> None:
        """See that the state topic of `topic` is there, before a consumer starts.

        A broker that does not answer is only a warning: `ready` leaves its queues out until it
        does.

        Raises:
            ConfigError: it is missing or too small and may not be made or grown, or it cannot
                be read or written; the text says what to do.
            TopicNotFound: there is no topic `topic`.
            NameServerUnavailable: no name server answered.
        """
        for broker, error in self._look(topic).faults.items():
            if isinstance(error, ConfigError):
                raise error
            self._warn(topic, broker, error)

    def ready(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        """Those of `queues` whose state queue can be used. Cheap as long as no route changed.

        Why others are left out is logged once.

        Raises:
            TopicNotFound, NameServerUnavailable: a route is not known and not to be had.
        """
        wanted = tuple(queues)
        found = {topic: self._findings(topic) for topic in {queue.topic for queue in wanted}}
        nothing = _Finding(0)
        return tuple(
            q for q in wanted if q.queue_id < found[q.topic].get(q.broker_name, nothing).usable
        )

    def _findings(self, topic: str) -> Mapping[str, _Finding]:
        before = self._looks.get(topic)
        look = self._look(topic)
        told = {} if before is None else {name: str(e) for name, e in before.faults.items()}
        for broker, error in look.faults.items():
            if told.get(broker) != str(error):
                self._warn(topic, broker, error)
        return look.findings

    def _warn(self, topic: str, broker: str, error: OrderlyError) -> None:
        emit = self._log.error if isinstance(error, ConfigError) else self._log.warning
        emit(
            "queues are not taken while their state topic cannot be used",
            subscribed=topic,
            broker=broker,
            error=str(error),
        )

    # --- looking -------------------------------------------------------------------------------

    def _look(self, topic: str) -> _Look:
        routes = self._client.routes
        source, state = routes.get(topic), state_topic(self._group, topic)
        before = self._looks.get(topic)
        # The state topic's route is renewed in the background: if somebody shrinks the topic, or
        # a member with an older view of the source topic does, it is seen here.
        if before and not before.faults and before.routes == (source, routes.cached(state)):
            return before
        findings = self._search(source, state)
        look = self._looks[topic] = _Look((source, routes.cached(state)), findings)
        return look

    def _search(self, source: TopicRoute, state: str) -> dict[str, _Finding]:
        """Ask about the state topic on each broker of the source topic that can be read."""
        listed = self._listed(state)
        findings = {
            data.broker_name: self._check(source, data, state, listed.get(data.broker_name))
            for data in sorted(source.queues, key=lambda data: data.broker_name)
            if Permission.READ in data.permission
        }
        if any(found.usable > _size(listed.get(name)) for name, found in findings.items()):
            listed = self._listed(state)  # requests go by the route, so it must be there
        for name, found in findings.items():
            if found.usable and name not in listed:
                text = f"no name server lists topic {state} on broker {name} yet"
                findings[name] = _Finding(0, RouteError(text))
        return findings

    def _listed(self, state: str) -> dict[str, QueueData]:
        """The state topic's queues by broker, as a name server tells them now."""
        try:
            route = self._client.routes.refresh(state)
        except TopicNotFound:
            return {}
        return {data.broker_name: data for data in route.queues}

    def _check(
        self, source: TopicRoute, data: QueueData, state: str, listed: QueueData | None
    ) -> _Finding:
        needed = max(data.read_queues, data.write_queues)  # producers may see new ones first
        if listed and _BOTH in listed.permission and _size(listed) >= needed:
            return _Finding(needed)
        broker = source.broker(data.broker_name)
        if broker is None:
            text = f"the route of topic {source.topic} has no address of {data.broker_name}"
            return _Finding(0, RouteError(text))
        try:
            return self._ask(broker, state, needed)
        except OrderlyError as error:
            return _Finding(0, _told(error, state, broker.broker_name))

    def _ask(self, broker: BrokerData, state: str, needed: int) -> _Finding:
        """Go by what the broker itself has; make what is missing."""
        present = self._client.admin.topic_config(state, broker)
        if present is not None and _BOTH not in Permission(present.perm):
            return _Finding(0, ConfigError(_no_permission(state, broker, present)))
        size = _size(present)
        if size < needed:
            if not self._create:
                text = _too_few(state, broker, size, needed)
                return _Finding(size, ConfigError(text))
            self._client.admin.grow_topic(state, broker, needed, present)
            self._log.info(
                "state topic made or grown",
                state_topic=state,
                broker=broker.broker_name,
                queues=needed,
                before=size,
            )
        return _Finding(needed)


def _size(topic: QueueData | TopicConfig | None) -> int:
    return 0 if topic is None else min(topic.read_queues, topic.write_queues)


def _no_permission(state: str, broker: BrokerData, present: TopicConfig) -> str:
    can = "written" if Permission.READ in Permission(present.perm) else "read"
    return (
        f"state topic {state} may not be {can} on broker {broker.broker_name}, and order='key'"
        " keeps there what is finished ahead: set its permission to 6"
        f" (mqadmin updateTopicPerm {_at(broker)} -t {state} -p 6)"
    )


def _too_few(state: str, broker: BrokerData, size: int, needed: int) -> str:
    remedy = "or let the consumer do it with create_state_topics=True"
    if size == 0:
        return (
            f"state topic {state} is missing on broker {broker.broker_name}, and order='key'"
            f" keeps there what is finished ahead: create it (orderly topic create {state}"
            f" --queues {needed}), {remedy}"
        )
    return (
        f"state topic {state} has {size} queues on broker {broker.broker_name}, its source topic"
        f" {needed}: grow it (mqadmin updateTopic {_at(broker)} -t {state} -r {needed} -w {needed}"
        f" -p 6), {remedy}"
    )


def _at(broker: BrokerData) -> str:
    """Which broker, as `mqadmin` is told; its name server comes with -n or from NAMESRV_ADDR."""
    return f"-b {broker.master}" if broker.master else f"-c {broker.cluster}"


def _told(error: OrderlyError, state: str, broker: str) -> OrderlyError:
    """A refusal comes again until somebody mends it; what passes stays what it is."""
    if not isinstance(error, BrokerError) or error.retriable:
        return error
    told = ConfigError(
        f"broker {broker} refuses to tell of state topic {state} or to make it, which order='key'"
        f" needs ({error}): allow it, or create the topic yourself"
    )
    told.__cause__ = error
    return told
