"""A consumer's start, gone through without starting one: what it would refuse, and warn of.

The checks are the start's own (`orderly.client.preflight`); here each is asked to its end, where a
start stops at the first refusal. Rights are tried without joining, pulling or writing; those to
send, and to make topics, only a message and a topic would show.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from orderly.cli.doctor.findings import DoctorFinding, FindingState, WantedStart
from orderly.client import Client, preflight
from orderly.client.calls import Calls
from orderly.client.preflight import (
    BehindProxy,
    Found,
    NotOrdered,
    NotReported,
    StartRefused,
    SubscriptionsDiffer,
    speaks_grpc,
)
from orderly.client.state_topics import NotThere, StateTopics
from orderly.config import ConsumerConfig, check_group
from orderly.errors import (
    BrokerError,
    ConfigError,
    GroupNotFound,
    NoPermission,
    NotAtProxy,
    OrderlyError,
    TopicNotFound,
)
from orderly.foreign_text import shell_word
from orderly.log import get_logger
from orderly.model import BrokerData, MessageQueue, Permission, TopicRoute
from orderly.monitoring.backlog.members import subscribed_differently
from orderly.monitoring.texts import counted
from orderly.namespace import is_retry_topic
from orderly.protocol.codes import Language, RequestCode
from orderly.protocol.frame import request
from orderly.protocol.groups import GroupConfig, decode_group_configs
from orderly.protocol.heartbeat import BY_SQL, MessageModel, Subscription
from orderly.protocol.statistics import ConsumerConnections

_PATIENCE = 10.0  # seconds for all members together; a broker waits as long for one that hangs
_REFUSED = "a consumer's start is refused"
_NOT_ASKED = "it could not be asked"
_BEHIND_PROXY = "a proxy shows no settings"
_MISSING = re.compile(r"(User:\S+) has no permission to access ((?:Topic|Group):\S+)")


def look_at_start(client: Client, wanted: WantedStart) -> list[DoctorFinding]:
    """Go through it, then try the rights on one queue of each topic and broker."""
    start = _Start(client, wanted)
    start.look()
    return [*start.findings, *_look_at_rights(client, wanted.group, start.queues())]


class _Start:
    """One consumer's start. For one thread, once.

    Args:
        client: to ask with.
        wanted: the consumer.

    Attributes:
        findings: what was found so far.
        routes: of the topics that there are.
    """

    def __init__(self, client: Client, wanted: WantedStart) -> None:
        self._client = client
        self._wanted = wanted
        self._masters: dict[str, BrokerData] = {}
        self._subscriptions: dict[str, tuple[Subscription, ...]] = {}
        self.findings: list[DoctorFinding] = []
        self.routes: dict[str, TopicRoute] = {}

    def look(self) -> None:
        """Check everything; the results are in `findings`."""
        group = self._wanted.group
        for topic in self._wanted.topics:
            with contextlib.suppress(OrderlyError):  # reported below; a proxy's routes say whom
                self._client.routes.get(topic)  # to ask for members
        members = None if group is None else self._members(group)
        topics = self._wanted.topics or ((group and self._topics_of(group, members)) or ())
        for topic in topics:
            self._topic(topic)
        if group is not None:
            self._group(group, members)

    def queues(self) -> list[MessageQueue]:
        """One queue of each topic and broker, to try rights on."""
        queues = (q for route in self.routes.values() for q in route.read_queues()[::-1])
        first = {(q.topic, q.broker_name): q for q in queues}
        return [first[place] for place in sorted(first)]

    # --- topics --------------------------------------------------------------------------------

    def _topic(self, topic: str) -> None:
        self._add_found(f"topic {topic}", preflight.check_topic(self._client, topic))
        with contextlib.suppress(OrderlyError):  # the check reports it
            route = self._client.routes.get(topic)
            self.routes[topic] = route
            for broker in sorted(route.brokers, key=lambda each: each.broker_name):
                with self._asked(f"topic {topic}"):
                    self._topic_at(topic, broker)
            if not route.write_queues():
                advice = "to allow sends, set it at the broker (mqadmin updateTopicPerm -p 6)"
                self._add(f"topic {topic}", FindingState.WARNING, "no queue may be written", advice)

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
        advice = "" if same else "finish the change (orderly topic grow), or make them the same"
        self._add(f"topic {topic}", FindingState.OK if same else FindingState.WARNING, text, advice)

    # --- the group -----------------------------------------------------------------------------

    def _members(self, group: str) -> ConsumerConnections | None:
        with self._asked(f"group {group}"):
            members = self._client.admin.consumer_connections(group)
            count = len(members.connections) if members else 0
            self._add(f"group {group}", FindingState.OK, f"{counted(count, 'member')} online")
            if members is not None:
                self._ask_subscriptions(group, members)
            return members
        return None

    def _ask_subscriptions(self, group: str, members: ConsumerConnections) -> None:
        """Ask each member: a broker knows only what the last heartbeat of one of them said."""
        give_up = time.monotonic() + _PATIENCE
        for member in members.connections:
            if speaks_grpc(member) or time.monotonic() > give_up:
                continue
            name = member.client_id
            try:
                info = self._client.groups.running_info(group, name)
                self._subscriptions[name] = info.subscriptions
            except (ConfigError, NotAtProxy):  # has left meanwhile
                pass
            except OrderlyError as error:
                self._add_found(f"group {group}", [NotReported(error, member=name)])
        for topic, ways in subscribed_differently(self._subscriptions).items():
            text = f"its members subscribe differently to {topic}: {ways}"
            advice = (
                "each heartbeat overwrites the others', and messages are passed over, or wait in"
                " queues that nobody reads: give all members the same topics and filters"
            )
            self._add(f"group {group}", FindingState.WARNING, text, advice)

    def _topics_of(self, group: str, members: ConsumerConnections | None) -> list[str]:
        """Those that members subscribe to, or that the group has offsets on."""
        found = set(members.subscriptions) if members else set[str]()
        found |= {sub.topic for subs in self._subscriptions.values() for sub in subs}
        if not found:
            with contextlib.suppress(OrderlyError):  # a key that may not ask; `access` reports it
                found = {queue.topic for queue in self._client.admin.consume_stats(group)}
        topics = sorted(topic for topic in found if not is_retry_topic(topic))
        if not topics:
            advice = "check the name, or name topics with --topic: no start could be checked"
            self._add(
                f"group {group}", FindingState.UNKNOWN, "no topic of the group is known", advice
            )
        return topics

    def _group(self, group: str, members: ConsumerConnections | None) -> None:
        config = self._config(group, members)
        theirs = {} if members is None else members.subscriptions
        wanted = {t: self._subscription(t, theirs.get(t)) for t in self.routes}
        settings = partial(self._settings, known=members is not None)
        found = preflight.check_group(
            self._client, group, wanted, config, brokers=self._brokers(), read=settings
        )
        self._add_found(f"group {group}", found)
        if config.by_key and not config.broadcasting:
            self._own_topics(group)

    def _config(self, group: str, members: ConsumerConnections | None) -> ConsumerConfig:
        """The settings of such a consumer."""
        broadcasting = self._wanted.broadcasting
        if broadcasting is None:
            there = None if members is None else members.message_model
            broadcasting = there == MessageModel.BROADCASTING
        if broadcasting:
            return ConsumerConfig(model="broadcasting", instance="doctor")
        return ConsumerConfig(order=self._wanted.order or self._order_of(group, members))

    def _subscription(self, topic: str, theirs: Subscription | None) -> Subscription:
        """What such a consumer subscribes to; `theirs`: the members that are there."""
        wanted = self._wanted
        if wanted.sql:
            return Subscription(topic, wanted.sql, expression_type=BY_SQL)
        if wanted.tags or theirs is None:
            return Subscription.from_expression(topic, wanted.tags or "*", 0)
        return theirs

    def _order_of(self, group: str, members: ConsumerConnections | None) -> Literal["queue", "key"]:
        """How the members keep order, as one of ours says; without one as Java's do."""
        for member in members.connections if members else ():
            if member.language == Language.PYTHON.name:
                with contextlib.suppress(OrderlyError):
                    info = self._client.groups.running_info(group, member.client_id)
                    return "key" if info.properties.get("order") == "key" else "queue"
        return "queue"

    def _brokers(self) -> list[str]:
        """Those of the topics, but those without a master; without topics all."""
        routes = self.routes.values()
        found = {broker.broker_name: broker for route in routes for broker in route.brokers}
        if not found:
            with self._asked("brokers"):
                found = dict(self._client.admin.cluster().brokers)
        self._masters = {name: broker for name, broker in found.items() if broker.master}
        return sorted(self._masters)

    def _settings(self, group: str, broker: str, *, known: bool) -> GroupConfig:
        settings = group_settings(self._client, group, self._masters[broker], known=known)
        text = (
            "does not exist yet: created when a member joins"
            if settings is None
            else _shown(settings)
        )
        self._add(f"group {group}", FindingState.OK, f"{broker}: {text}")
        return settings or GroupConfig(name=group)

    def _own_topics(self, group: str) -> None:
        """Those in which order by key keeps what is finished, and parked."""
        look = StateTopics(self._client, group, create=False, log=get_logger("orderly.consumer"))
        for topic in self.routes:
            with self._asked(f"group {group}"):
                faults = list(look.faults(topic))
                for own, broker, error in faults:
                    part = f"{own.kind} of {topic}"
                    if isinstance(error, NotThere) and not self._client.behind_proxy:
                        text = f"{broker}: missing or too small: created at a consumer's start"
                        self._add(part, FindingState.OK, text)
                    else:
                        self._add(part, _state_of(error), f"{broker}: {own.topic}", str(error))
                if not faults:
                    self._add(f"state and park topic of {topic}", FindingState.OK, "there")

    # --- findings ------------------------------------------------------------------------------

    def _add(self, part: str, state: FindingState, found: str, advice: str = "") -> None:
        finding = DoctorFinding("start", part, state, found, advice)
        if finding not in self.findings:  # the members are asked for by us, too
            self.findings.append(finding)

    def _add_found(self, part: str, findings: Iterable[Found]) -> None:
        for found in findings:
            match found:
                case StartRefused(error):
                    self._refuse(part, error)
                case NotReported(NoPermission() | GroupNotFound() as error):
                    self._refuse(part, error)
                case NotReported(error):  # a start goes on
                    where = f"{found.member}: " if found.member else ""
                    self._add(part, FindingState.UNKNOWN, f"{where}{_NOT_ASKED}", str(error))
                case SubscriptionsDiffer(differences):
                    text = " ".join(["subscriptions differ", *differences])
                    self._add(part, FindingState.WARNING, text, found.hint)
                case BehindProxy():
                    self._add(part, FindingState.ABSENT, _BEHIND_PROXY, found.hint)
                case NotOrdered():  # shown with the settings
                    pass

    def _refuse(self, part: str, error: OrderlyError) -> None:
        if isinstance(error, NoPermission):
            self._add(part, FindingState.CRITICAL, _refusal_of(error), _how_to_grant(error))
            return
        state = _state_of(error)
        self._add(
            part, state, _REFUSED if state is FindingState.CRITICAL else _NOT_ASKED, str(error)
        )

    @contextlib.contextmanager
    def _asked(self, part: str) -> Iterator[None]:
        """A refusal is a finding, and what is not answered another one."""
        try:
            yield
        except NotAtProxy:
            self._add(part, FindingState.ABSENT, _BEHIND_PROXY)
        except OrderlyError as error:
            self._refuse(part, error)


def _state_of(error: OrderlyError) -> FindingState:
    refusal = isinstance(error, ConfigError | TopicNotFound)
    refusal = refusal or (isinstance(error, BrokerError) and not error.retriable)
    return FindingState.CRITICAL if refusal else FindingState.UNKNOWN


def _shown(settings: GroupConfig) -> str:
    parts = ["may consume" if settings.consume_enabled else "may not consume"]
    parts += ["may broadcast" if settings.broadcast_enabled else "may not broadcast"]
    parts += ["marked as ordered" if settings.orderly else "not marked as ordered"]
    return ", ".join(parts)


def _permission(permission: Permission) -> str:
    may = [word for word, bit in (("read", Permission.READ), ("write", Permission.WRITE))
           if bit in permission]  # fmt: skip
    return " and ".join(may) or "neither read nor write"


# --- the group's settings ----------------------------------------------------------------------


def group_settings(
    client: Client, group: str, broker: BrokerData, *, known: bool
) -> GroupConfig | None:
    """Read a group's settings without making it; None: it will be made when a member joins.

    A broker makes a group whose settings are asked for by name. So the list of all groups is asked
    for, and by name only a group that is known to be there.

    Args:
        client: to ask with.
        group: as brokers name it.
        broker: its master is asked.
        known: whether the group is surely there: it has members, or offsets.

    Raises:
        GroupNotFound: it is not there, and the broker makes none.
        OrderlyError: not to be had; a key that may not list groups may not see whether one of
            which nothing is known is there.
    """
    try:
        found = _listed(client, group, broker)
    except NoPermission:
        if not known:
            raise
        return client.groups.group_config(group, broker.broker_name)
    if found is None and not _made_when_needed(client, broker):
        raise GroupNotFound(
            f"broker {broker.broker_name} has no group {group}, and does not create groups itself"
            " (autoCreateSubscriptionGroup=false): create it, with order on: mqadmin"
            f" updateSubGroup -c {shell_word(broker.cluster)} -g {shell_word(group)} -o true"
        )
    return found


def _listed(client: Client, group: str, broker: BrokerData) -> GroupConfig | None:
    command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    calls = Calls(client.connections, client.config.request_timeout)
    what = f"the settings of all groups, for those of {check_group(group)!r}"
    reply = calls.ask(broker.master or "", command, what)
    return decode_group_configs(reply.body).groups.get(group)


def _made_when_needed(client: Client, broker: BrokerData) -> bool:
    try:
        settings = client.admin.broker_settings(broker)
    except OrderlyError:  # the default of a broker
        return True
    return settings.get("autoCreateSubscriptionGroup", "true") == "true"


# --- rights ------------------------------------------------------------------------------------


def _look_at_rights(
    client: Client, group: str | None, queues: Iterable[MessageQueue]
) -> Iterator[DoctorFinding]:
    """Try what a consumer asks for, on one queue of each topic and broker.

    Args:
        client: to ask with.
        group: as brokers name it; None: only what needs no group.
        queues: to ask about.
    """
    for queue in queues:
        where = f"{queue.topic} on {queue.broker_name}"
        refused = [error for ask in _trials(client, group, queue) if (error := _refusal(ask))]
        once = {_refusal_of(error): error for error in refused}
        for text, error in once.items():
            yield DoctorFinding("access", where, FindingState.CRITICAL, text, _how_to_grant(error))
        if not once:
            allowed = "may be read" if group is None else f"group {group} may consume it"
            yield DoctorFinding("access", where, FindingState.OK, allowed)


def _trials(
    client: Client, group: str | None, queue: MessageQueue
) -> Iterator[Callable[[], object]]:
    brokers = client.brokers
    yield lambda: brokers.max_offset(queue)
    if group is None:
        return
    yield lambda: brokers.query_offset(group, queue)
    # To give back a lock that we do not hold changes nothing, and needs what a pull needs.
    yield lambda: brokers.unlock_queues(group, queue.broker_name, [queue])


def _refusal(ask: Callable[[], object]) -> NoPermission | None:
    """Whether it is refused; a missing answer is reported elsewhere."""
    try:
        ask()
    except NoPermission as error:
        return error
    except OrderlyError:
        return None
    return None


def _refusal_of(error: NoPermission) -> str:
    """What was refused, in the broker's words."""
    return f"refused: {error.remark.strip()}" if error.remark else "refused"


def _how_to_grant(error: NoPermission) -> str:
    """The command that grants it, where the broker says what is missing (ACL 2.0)."""
    found = _MISSING.search(error.remark)
    if found is None:
        return str(error)
    user, resource = map(shell_word, found.groups())
    return (
        f"grant it (mqadmin updateAcl -s {user} -r {resource} -a Sub,Get -d Allow), or set another"
        " access_key; docs/how-to/security.md says what is needed"
    )
