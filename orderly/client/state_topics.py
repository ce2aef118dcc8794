"""The topics that keep a group's state: two for each topic consumed with order="key".

One remembers what is finished ahead, one takes the messages of parked keys. Each has, on each
broker of its source topic, a queue of the same id for each queue there. They are made, and grown,
before queues of the source topic are taken.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orderly.client import Client
from orderly.errors import (
    BrokerError,
    ConfigError,
    NotAtProxy,
    OrderlyError,
    RouteError,
    TopicNotFound,
)
from orderly.foreign_text import shell_word
from orderly.model import BrokerData, MessageQueue, Permission, QueueData, TopicRoute
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.topics import TopicConfig

_BOTH = Permission.READ | Permission.WRITE


class NotThere(ConfigError):
    """A topic that is missing or has too few queues, where it may not be made or grown."""


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """One of the two topics: its name, what it is called, and what it keeps."""

    topic: str
    kind: str
    keeps: str


@dataclass(frozen=True, slots=True)
class _Finding:
    """How many of its queues of a broker can be used, and why not all that are needed."""

    usable: int
    fault: OrderlyError | None = None


@dataclass(frozen=True, slots=True)
class _Look:
    """What was found, by broker, when the routes of source and own topic were these."""

    routes: tuple[TopicRoute, TopicRoute | None]
    findings: Mapping[str, _Finding]

    @property
    def faults(self) -> dict[str, OrderlyError]:
        """What is wrong, by broker."""
        return {name: found.fault for name, found in self.findings.items() if found.fault}


class StateTopics:
    """The state and park topics of one group. Thread-safe; `ensure` and `ready` may block.

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

    def park_queue_of(self, queue: MessageQueue) -> MessageQueue:
        """The park queue of a source queue: on the same broker, with the same id."""
        return replace(queue, topic=park_topic(self._group, queue.topic))

    def ensure(self, topic: str) -> None:
        """See that the state and the park topic of `topic` are there, before a consumer starts.

        A broker that does not answer is only a warning: `ready` leaves its queues out until it
        does.

        Raises:
            ConfigError: one is missing or too small and may not be made or grown, or it cannot
                be read or written; the text says what to do.
            TopicNotFound: there is no topic `topic`.
            NameServerUnavailable: no name server answered.
        """
        if self._client.behind_proxy:
            for own in self.of(topic):
                with contextlib.suppress(TopicNotFound):
                    self._client.routes.get_anew(own.topic)
        for own, broker, error in self.faults(topic):
            if isinstance(error, ConfigError):
                raise error
            self._warn(topic, own, broker, error)

    def faults(self, topic: str) -> Iterator[tuple[OwnTopic, str, OrderlyError]]:
        """Why a consumer of `topic` could not be started: our topic, the broker, and the reason.

        Nothing is made by looking if it may not `create`: then what is missing is `NotThere`.

        Raises:
            TopicNotFound, NameServerUnavailable: as for `ensure`.
        """
        for own in self.of(topic):
            for broker, error in self._look(topic, own).faults.items():
                yield own, broker, error

    def ready(self, queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
        """Those of `queues` whose state and park queue can be used.

        Cheap as long as no route changed. Why others are left out is logged once.

        Raises:
            TopicNotFound, NameServerUnavailable: a route is not known and not to be had.
        """
        wanted = tuple(queues)
        found = {topic: self._usable(topic) for topic in {queue.topic for queue in wanted}}
        return tuple(q for q in wanted if q.queue_id < found[q.topic].get(q.broker_name, 0))

    def fault(self, queue: MessageQueue) -> OrderlyError | None:
        """Why the last look left a queue out, if that is known. Asks nobody."""
        looks = (self._looks.get(own.topic) for own in self.of(queue.topic))
        faults = (look.faults.get(queue.broker_name) for look in looks if look is not None)
        return next((fault for fault in faults if fault is not None), None)

    def _usable(self, topic: str) -> Mapping[str, int]:
        """How many queues of a topic may be taken, by broker."""
        first, second = (self._findings(topic, own) for own in self.of(topic))
        both = first.keys() & second.keys()  # a broker may have come, or gone, between the looks
        return {name: min(first[name].usable, second[name].usable) for name in both}

    def of(self, topic: str) -> tuple[OwnTopic, OwnTopic]:
        """The state and the park topic of `topic`. Asks nobody."""
        return (
            OwnTopic(state_topic(self._group, topic), "state topic", "what is finished ahead"),
            OwnTopic(park_topic(self._group, topic), "park topic", "the messages of parked keys"),
        )

    def _findings(self, topic: str, own: OwnTopic) -> Mapping[str, _Finding]:
        before = self._looks.get(own.topic)
        look = self._look(topic, own)
        logged = {} if before is None else {name: str(e) for name, e in before.faults.items()}
        for broker, error in look.faults.items():
            if logged.get(broker) != str(error):
                self._warn(topic, own, broker, error)
        return look.findings

    def _warn(self, topic: str, own: OwnTopic, broker: str, error: OrderlyError) -> None:
        emit = self._log.error if isinstance(error, ConfigError) else self._log.warning
        emit(
            "group_topic.unusable",
            kind=own.kind,
            subscribed=topic,
            broker=broker,
            error=str(error),
        )

    # --- looking -------------------------------------------------------------------------------

    def _look(self, topic: str, own: OwnTopic) -> _Look:
        routes = self._client.routes
        source, before = routes.get(topic), self._looks.get(own.topic)
        # Our topic's route is renewed in the background: if somebody shrinks or deletes the topic,
        # or a member with an older view of the source topic does, it is seen here.
        unchanged = before and before.routes == (source, routes.cached(own.topic))
        if before and unchanged and not before.faults and not routes.missing(own.topic):
            return before
        findings = self._search(source, own)
        look = self._looks[own.topic] = _Look((source, routes.cached(own.topic)), findings)
        return look

    def _search(self, source: TopicRoute, own: OwnTopic) -> dict[str, _Finding]:
        """Ask about our topic on each broker of the source topic that can be read."""
        listed = self._listed(own.topic)
        findings = {
            data.broker_name: self._check(source, data, own, listed.get(data.broker_name))
            for data in sorted(source.queues, key=lambda data: data.broker_name)
            if Permission.READ in data.permission
        }
        if any(found.usable > _size(listed.get(name)) for name, found in findings.items()):
            listed = self._listed(own.topic)  # requests go by the route, so it must be there
        for name, found in findings.items():
            if found.usable and name not in listed:
                text = f"no name server lists topic {own.topic} on broker {name} yet"
                findings[name] = _Finding(0, RouteError(text))
        return findings

    def _listed(self, own_topic: str) -> dict[str, QueueData]:
        """A topic's queues by broker, as a name server lists them now."""
        try:
            route = self._client.routes.refresh(own_topic)
        except TopicNotFound:
            return {}
        return {data.broker_name: data for data in route.queues}

    def _check(
        self, source: TopicRoute, data: QueueData, own: OwnTopic, listed: QueueData | None
    ) -> _Finding:
        needed = max(data.read_queues, data.write_queues)  # producers may see new ones first
        usable = _size(listed) if listed and _BOTH in listed.permission else 0
        if usable >= needed:
            return _Finding(needed)
        broker = source.broker(data.broker_name)
        if broker is None:
            text = f"the route of topic {source.topic} has no address of {data.broker_name}"
            return _Finding(0, RouteError(text))
        try:
            return self._ask(broker, source.topic, own, needed)
        except NotAtProxy as error:
            fault = NotThere(self._made_elsewhere(source.topic, broker.broker_name))
            fault.__cause__ = error
            return _Finding(usable, fault)
        except OrderlyError as error:
            return _Finding(0, _refusal(error, own, broker.broker_name))

    def _made_elsewhere(self, topic: str, broker: str) -> str:
        state, park = (own.topic for own in self.of(topic))
        return (
            f"order='key' keeps what it knows of {topic} in the topics {state} and {park}; one is"
            f" missing on broker {broker}, or too small, and a proxy makes no topics: where the"
            f" name servers can be reached, run {_command(self._group, topic)}"
        )

    def _ask(self, broker: BrokerData, source: str, own: OwnTopic, needed: int) -> _Finding:
        """Go by what the broker itself has; make what is missing."""
        present = self._client.admin.topic_config(own.topic, broker)
        if present is not None and _BOTH not in Permission(present.perm):
            return _Finding(0, ConfigError(_no_permission(own, broker, present)))
        size = _size(present)
        if size < needed:
            if not self._create:
                text = _too_few(own, broker, size, needed, _command(self._group, source))
                return _Finding(size, NotThere(text))
            self._client.admin.grow_topic(own.topic, broker, needed, present)
            self._log.info(
                "group_topic.grown",
                kind=own.kind,
                topic=own.topic,
                broker=broker.broker_name,
                queues=needed,
                before=size,
            )
        return _Finding(needed)


def _size(topic: QueueData | TopicConfig | None) -> int:
    return 0 if topic is None else min(topic.read_queues, topic.write_queues)


def _no_permission(own: OwnTopic, broker: BrokerData, present: TopicConfig) -> str:
    can = "written" if Permission.READ in Permission(present.perm) else "read"
    return (
        f"{own.kind} {own.topic} may not be {can} on broker {broker.broker_name}, and order='key'"
        f" keeps there {own.keeps}: set its permission to 6"
        f" (mqadmin updateTopicPerm {_at(broker)} -t {shell_word(own.topic)} -p 6)"
    )


def _too_few(own: OwnTopic, broker: BrokerData, size: int, needed: int, command: str) -> str:
    remedy = f"{command}, or let the consumer do it with create_state_topics=True"
    if size == 0:
        return (
            f"{own.kind} {own.topic} is missing on broker {broker.broker_name}, and order='key'"
            f" keeps there {own.keeps}: run {remedy}"
        )
    return (
        f"{own.kind} {own.topic} has {size} queues on broker {broker.broker_name}, its source topic"
        f" {needed}: run {remedy}"
    )


def _command(group: str, topic: str) -> str:
    """What makes the two topics, and grows them."""
    return f"orderly topic create {shell_word(topic)} --for-group {shell_word(group)}"


def _at(broker: BrokerData) -> str:
    """The argument of `mqadmin` for a broker; -n or NAMESRV_ADDR gives it the name server."""
    if broker.master:
        return f"-b {shell_word(broker.master)}"
    return f"-c {shell_word(broker.cluster)}"


def _refusal(error: OrderlyError, own: OwnTopic, broker: str) -> OrderlyError:
    """A refusal comes again until somebody allows it: a ConfigError; other errors stay."""
    if not isinstance(error, BrokerError) or error.retriable:
        return error
    refusal = ConfigError(
        f"broker {broker} refuses to show {own.kind} {own.topic} or to make it, which"
        f" order='key' needs ({error}): allow it, or create the topic yourself"
    )
    refusal.__cause__ = error
    return refusal
