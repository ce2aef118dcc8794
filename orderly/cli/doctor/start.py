"""A consumer's start, gone through without starting one: what it would refuse, and warn of.

The rules are the consumer's own (`orderly.consumer.preflight`, and what order by key needs); here
each is asked to its end, where a start stops at the first refusal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from orderly.cli.doctor.access import how_to_grant, refusal_of
from orderly.cli.doctor.finding import Finding, State
from orderly.cli.doctor.groups import group_settings
from orderly.cli.doctor.wanted import Wanted
from orderly.client import Client
from orderly.config import ConsumerConfig
from orderly.consumer import preflight
from orderly.consumer.company import Company
from orderly.consumer.owning.state_topics import NotThere, StateTopics
from orderly.errors import BrokerError, ConfigError, NoPermission, OrderlyError, TopicNotFound
from orderly.model import BrokerData, MessageQueue, Permission, TopicRoute
from orderly.monitoring.texts import counted
from orderly.namespace import is_retry_topic
from orderly.protocol.codes import Language
from orderly.protocol.group_config import GroupConfig
from orderly.protocol.heartbeat import MessageModel, Subscription
from orderly.protocol.stats_bodies import ConsumerConnections

_REFUSED = "a consumer's start is refused"


class Start:
    """One consumer's start. For one thread, once.

    Args:
        client: to ask with.
        wanted: the consumer.

    Attributes:
        findings: what was found so far.
        routes: of the topics that there are.
    """

    def __init__(self, client: Client, wanted: Wanted) -> None:
        self._client = client
        self._wanted = wanted
        self.findings: list[Finding] = []
        self.routes: dict[str, TopicRoute] = {}

    def look(self) -> None:
        """Go through it; whatever is found is in `findings`."""
        group = self._wanted.group
        members = None if group is None else self._members(group)
        topics = self._wanted.topics or ((group and self._topics_of(group, members)) or ())
        for topic in topics:
            self._topic(topic)
        if group is not None:
            self._group(group, members)

    def queues(self) -> list[MessageQueue]:
        """One queue of each topic and broker, to try rights on."""
        first = {(q.topic, q.broker_name): q for r in self.routes.values() for q in _read(r)[::-1]}
        return [first[place] for place in sorted(first)]

    # --- topics --------------------------------------------------------------------------------

    def _topic(self, topic: str) -> None:
        with self._asked(f"topic {topic}"):
            route = self._client.routes.get(topic)
            self.routes[topic] = route
            for broker in sorted(route.brokers, key=lambda each: each.broker_name):
                with self._asked(f"topic {topic}"):
                    self._topic_at(topic, broker)
            preflight.check_readable(route)
            if not route.write_queues():
                advice = (
                    "set it at the broker (mqadmin updateTopicPerm -p 6), if it is to be sent to"
                )
                self._add(f"topic {topic}", State.WARNING, "no queue may be written", advice)

    def _topic_at(self, topic: str, broker: BrokerData) -> None:
        found = self._client.admin.topic_config(topic, broker) if broker.master else None
        if found is None:
            return
        same = found.read_queues == found.write_queues
        queues = counted(found.read_queues, "queue") if same else (
            f"{found.read_queues} queues to read, {found.write_queues} to write"
        )  # fmt: skip
        order = "marked as ordered" if found.order else "not marked as ordered"
        may = _permission(Permission(found.perm))
        text = f"{broker.broker_name}: {queues}, {may}, {found.message_type}, {order}"
        advice = "" if same else "end what was begun (orderly topic grow), or make them the same"
        self._add(f"topic {topic}", State.OK if same else State.WARNING, text, advice)

    # --- the group -----------------------------------------------------------------------------

    def _members(self, group: str) -> ConsumerConnections | None:
        with self._asked(f"group {group}"):
            members = self._client.admin.consumer_connections(group)
            count = len(members.connections) if members else 0
            self._add(f"group {group}", State.OK, f"{counted(count, 'member')} online")
            return members
        return None

    def _topics_of(self, group: str, members: ConsumerConnections | None) -> list[str]:
        """Those that members subscribe to, or that the group has offsets on."""
        found = set(members.subscriptions) if members else set[str]()
        if not found:
            with contextlib.suppress(OrderlyError):  # a key that may not ask; `access` tells
                found = {queue.topic for queue in self._client.admin.consume_stats(group)}
        topics = sorted(topic for topic in found if not is_retry_topic(topic))
        if not topics:
            advice = "name topics with --topic, to have the start of a consumer looked at"
            self._add(f"group {group}", State.ABSENT, "no topic is known of it", advice)
        return topics

    def _group(self, group: str, members: ConsumerConnections | None) -> None:
        config = self._wanted.config(self._order_of(group, members), broadcasting=_model(members))
        theirs = {} if members is None else members.subscriptions
        wanted = {t: self._wanted.subscription(t, theirs.get(t)) for t in self.routes}
        for subscription in wanted.values():
            with self._asked(f"group {group}"):
                preflight.check_filter(self._client, group, subscription, self._hears(group))
        for broker in self._brokers():
            with self._asked(f"group {group}"):
                self._group_at(group, broker, config, known=members is not None)
        with self._asked(f"group {group}"):
            self._company(group, members, wanted, config)
        if config.by_key and not config.broadcasting:
            self._own_topics(group)

    def _order_of(self, group: str, members: ConsumerConnections | None) -> str:
        """How the members keep order, as one of ours says; without one as Java's do."""
        for member in members.connections if members else ():
            if member.language == Language.PYTHON.name:
                with contextlib.suppress(OrderlyError):
                    info = self._client.groups.running_info(group, member.client_id)
                    return "key" if info.properties.get("order") == "key" else "queue"
        return "queue"

    def _brokers(self) -> list[BrokerData]:
        """Those of the topics; without topics all."""
        routes = self.routes.values()
        found = {broker.broker_name: broker for route in routes for broker in route.brokers}
        if not found:
            with self._asked("brokers"):
                found = dict(self._client.admin.cluster().brokers)
        return [found[name] for name in sorted(found) if found[name].master]

    def _group_at(
        self, group: str, broker: BrokerData, config: ConsumerConfig, *, known: bool
    ) -> None:
        name = broker.broker_name
        settings = group_settings(self._client, group, broker, known=known)
        text = "not there yet: made when a member joins" if settings is None else _told(settings)
        self._add(f"group {group}", State.OK, f"{name}: {text}")
        settings = settings or GroupConfig(name=group)
        preflight.check_settings(settings, name, config, self._hears(group))
        if not settings.orderly and not config.broadcasting:
            preflight.check_types(self._client, group, self.routes.values(), name)

    def _company(
        self,
        group: str,
        members: ConsumerConnections | None,
        wanted: dict[str, Subscription],
        config: ConsumerConfig,
    ) -> None:
        if members is None:
            return
        log = self._hears(group)
        if wanted:
            preflight.check_members(group, wanted, config, members, log)
        if not config.broadcasting:
            Company(self._client, group, config.order, log).check(members.connections)

    def _own_topics(self, group: str) -> None:
        """Those in which order by key keeps what is finished, and parked."""
        look = StateTopics(self._client, group, create=False, log=self._hears(group))
        for topic in self.routes:
            with self._asked(f"group {group}"):
                faults = list(look.faults(topic))
                for own, broker, error in faults:
                    part = f"{own.kind} of {topic}"
                    if isinstance(error, NotThere):
                        text = f"{broker}: not there, or too small: made at a consumer's start"
                        self._add(part, State.OK, text)
                    else:
                        self._add(part, _state_of(error), f"{broker}: {own.topic}", str(error))
                if not faults:
                    self._add(f"state and park topic of {topic}", State.OK, "there")

    # --- telling -------------------------------------------------------------------------------

    def _add(self, part: str, state: State, found: str, advice: str = "") -> None:
        self.findings.append(Finding("start", part, state, found, advice))

    def _hears(self, group: str) -> _Hearing:
        return _Hearing(self.findings, f"group {group}")

    @contextlib.contextmanager
    def _asked(self, part: str) -> Iterator[None]:
        """A refusal is a finding, and what is not answered another one."""
        try:
            yield
        except NoPermission as error:
            self._add(part, State.CRITICAL, refusal_of(error), how_to_grant(error))
        except OrderlyError as error:
            state = _state_of(error)
            found = _REFUSED if state is State.CRITICAL else "it could not be asked"
            self._add(part, state, found, str(error))


def _state_of(error: OrderlyError) -> State:
    refusal = isinstance(error, ConfigError | TopicNotFound)
    refusal = refusal or (isinstance(error, BrokerError) and not error.retriable)
    return State.CRITICAL if refusal else State.UNKNOWN


class _Hearing:
    """Hears what a start would log: its warnings become findings."""

    def __init__(self, findings: list[Finding], part: str) -> None:
        self._findings = findings
        self._part = part

    def warning(self, event: str, **fields: Any) -> None:
        """A start would go on."""
        state = State.UNKNOWN if "error" in fields else State.WARNING
        self._findings.append(
            Finding("start", self._part, state, _event(event, fields), _advice(fields))
        )

    error = warning

    def info(self, event: str, **fields: Any) -> None:
        """Nothing is wrong."""


def _event(event: str, fields: Mapping[str, Any]) -> str:
    where = [f"{fields[name]}:" for name in ("broker", "member") if name in fields]
    words = event.partition(".")[2].replace("_", " ")
    return " ".join([*where, words, *fields.get("differences", ())])


def _advice(fields: Mapping[str, Any]) -> str:
    return str(fields.get("hint") or fields.get("error") or "")


def _told(settings: GroupConfig) -> str:
    parts = ["may consume" if settings.consume_enabled else "may not consume"]
    parts += ["may broadcast" if settings.broadcast_enabled else "may not broadcast"]
    parts += ["marked as ordered" if settings.orderly else "not marked as ordered"]
    return ", ".join(parts)


def _model(members: ConsumerConnections | None) -> bool:
    return members is not None and members.message_model == MessageModel.BROADCASTING


def _permission(permission: Permission) -> str:
    may = [word for word, bit in (("read", Permission.READ), ("write", Permission.WRITE))
           if bit in permission]  # fmt: skip
    return " and ".join(may) or "neither read nor write"


def _read(route: TopicRoute) -> tuple[MessageQueue, ...]:
    return route.read_queues()
