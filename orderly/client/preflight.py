"""What is checked before a consumer joins its group: better a clear error than an idle member.

Each check yields what it finds. A start ends at the first refusal; `orderly doctor` asks all to its
end. What only an operator can judge refuses nothing: while a new version is rolled out, members may
differ for a while. A question that a broker does not answer stops nobody, either: one that hangs or
refuses must not keep a service down.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from orderly.client import Client
from orderly.config import ConsumerConfig
from orderly.errors import ConfigError, NotAtProxy, OrderlyError
from orderly.foreign_text import shell_word
from orderly.model import TopicRoute
from orderly.namespace import is_retry_topic
from orderly.protocol.codes import Language
from orderly.protocol.groups import GroupConfig
from orderly.protocol.heartbeat import BY_TAG, ConsumeType, MessageModel, Subscription
from orderly.protocol.statistics import ConsumerConnection, ConsumerConnections
from orderly.protocol.topics import MessageType

_PATIENCE = 10.0  # seconds; a broker waits as long for one member that hangs
_BY_KEY = "key"
_SETTING = "order"  # of a ConsumerConfig, all of which is in a running info
SettingsAt = Callable[[str, str], GroupConfig]
"""Reads the settings of a group at a broker, by their names."""


@dataclass(frozen=True, slots=True)
class StartRefused:
    """A consumer's start ends with this error."""

    error: OrderlyError


@dataclass(frozen=True, slots=True)
class NotReported:
    """What was asked is not known, of a broker or of a member; a start goes on."""

    error: OrderlyError
    broker: str | None = None
    member: str | None = None


@dataclass(frozen=True, slots=True)
class NotOrdered:
    """A broker does not know the group as ordered. It matters to who adds gRPC members."""

    broker: str

    @property
    def hint(self) -> str:
        """What to do."""
        return (
            "this member keeps the order, but gRPC members do not: mark the group with mqadmin"
            " updateSubGroup -o true"
        )


@dataclass(frozen=True, slots=True)
class BehindProxy:
    """A proxy shows no settings of groups and topics, and relays no question to members."""

    @property
    def hint(self) -> str:
        """What to do."""
        return (
            "neither the group's settings nor how other members of this library keep order was"
            " checked: see to it that all have the same order, and that no gRPC client joins"
        )


@dataclass(frozen=True, slots=True)
class SubscriptionsDiffer:
    """Members that are there have other topics or filters."""

    differences: tuple[str, ...]
    members: tuple[str, ...]

    @property
    def hint(self) -> str:
        """What to do."""
        return (
            "the last heartbeat wins at the broker, so messages can be missed: give all members the"
            " same topics and filters"
        )


Found = StartRefused | NotReported | NotOrdered | BehindProxy | SubscriptionsDiffer


def check_start(
    client: Client, group: str, subscriptions: Iterable[Subscription], config: ConsumerConfig
) -> Iterator[Found]:
    """Check topics, filters, the group's settings and its other members.

    To be read until the first refusal: what follows one may raise.
    """
    wanted = {subscription.topic: subscription for subscription in subscriptions}
    for topic in wanted:
        yield from check_topic(client, topic)
    routes = [client.routes.get(topic) for topic in wanted]
    brokers = {broker.broker_name for route in routes for broker in route.brokers}
    read = client.groups.group_config
    yield from check_group(client, group, wanted, config, brokers=sorted(brokers), read=read)


def check_topic(client: Client, topic: str) -> Iterator[Found]:
    """Refuse a topic that is not there, or of which nothing may be read."""
    try:
        route = client.routes.get_anew(topic)
    except OrderlyError as error:
        yield StartRefused(error)
        return
    if not route.read_queues():
        yield StartRefused(ConfigError(not_readable(topic)))


def not_readable(topic: str) -> str:
    """What is wrong with a topic whose route has no queue to read, and what to do."""
    return (
        f"no queue of topic {topic} may be read: its read permission is off, or that of its"
        " brokers, or it has no read queues; set them at the broker (mqadmin updateTopicPerm,"
        " updateBrokerConfig -k brokerPermission, updateTopic)"
    )


def check_group(
    client: Client,
    group: str,
    wanted: Mapping[str, Subscription],
    config: ConsumerConfig,
    *,
    brokers: Iterable[str],
    read: SettingsAt,
) -> Iterator[Found]:
    """Check filters, the group's settings and its other members.

    Args:
        client: to ask with.
        group: as brokers name it.
        wanted: by topic; the topics are there.
        config: of the consumer.
        brokers: whose settings of the group are looked at.
        read: reads these settings.
    """
    for subscription in wanted.values():
        yield from check_filter(client, group, subscription)
    if client.behind_proxy:
        yield BehindProxy()
        brokers = ()
    for broker in brokers:
        found = _settings(client, group, wanted, config, broker=broker, read=read)
        yield from _asked(found, broker)
    yield from _asked(_members(client, group, wanted, config))


def check_filter(client: Client, group: str, subscription: Subscription) -> Iterator[Found]:
    """Have the brokers check a filter that is not by tags: can they read it, and filter so?"""
    if subscription.expression_type != BY_TAG:
        try:
            client.groups.check_filter(group, subscription, client.client_id)
        except ConfigError as error:
            yield StartRefused(error)
        except OrderlyError as error:
            yield NotReported(error)


def _asked(findings: Iterator[Found], broker: str | None = None) -> Iterator[Found]:
    """A question that is not answered is a finding, too."""
    try:
        yield from findings
    except ConfigError as error:
        yield StartRefused(error)
    except OrderlyError as error:
        yield NotReported(error, broker)


def _settings(
    client: Client,
    group: str,
    topics: Iterable[str],
    config: ConsumerConfig,
    *,
    broker: str,
    read: SettingsAt,
) -> Iterator[Found]:
    settings = read(group, broker)
    yield from check_settings(settings, broker, config)
    if not settings.orderly and config.require_ordered_group and not config.broadcasting:
        for topic in topics:
            yield from _check_type(client, group, client.routes.get(topic), broker)


def check_settings(settings: GroupConfig, broker: str, config: ConsumerConfig) -> Iterator[Found]:
    """Compare what a broker lets the group do with what we want: would it refuse our pulls?"""
    forbids = f"broker {broker} forbids group {settings.name}"
    remedy = "allow it with mqadmin updateSubGroup"
    if not settings.consume_enabled:
        yield StartRefused(ConfigError(f"{forbids} to consume; {remedy}"))
    if config.broadcasting and not settings.broadcast_enabled:
        yield StartRefused(ConfigError(f"{forbids} to broadcast; {remedy}"))
    if not settings.orderly:
        yield NotOrdered(broker)


def _check_type(client: Client, group: str, route: TopicRoute, broker: str) -> Iterator[Found]:
    """Refuse a FIFO topic for a group that a broker does not know as ordered.

    A topic is declared FIFO for gRPC clients. Those of such a group are given messages of one
    queue side by side, past our locks; a topic for remoting clients only needs no type.
    """
    data = route.broker(broker)
    found = data and client.admin.topic_config(route.topic, data)
    if found and found.message_type == MessageType.FIFO:
        text = (
            f"topic {route.topic} is of type FIFO, but broker {broker} does not know group"
            f" {group} as ordered, so gRPC members would get messages of one key side by side."
            f" Mark it (mqadmin updateSubGroup -c <cluster> -g {shell_word(group)} -o true), or set"
            " ConsumerConfig.require_ordered_group=False if no gRPC client ever joins"
        )
        yield StartRefused(ConfigError(text))


# --- the members that are there ----------------------------------------------------------------


def _members(
    client: Client, group: str, wanted: Mapping[str, Subscription], config: ConsumerConfig
) -> Iterator[Found]:
    members = client.admin.consumer_connections(group)
    if members is not None and members.connections:
        if wanted:
            yield from check_members(group, wanted, config, members)
        if not config.broadcasting:
            yield from check_protocols(group, members.connections)
            yield from check_orders(client, group, config.order, members.connections)


def check_members(
    group: str,
    wanted: Mapping[str, Subscription],
    config: ConsumerConfig,
    members: ConsumerConnections,
) -> Iterator[Found]:
    """Compare us with the members that are there.

    Those that consume in another way are a refusal: both would break each other's order.
    """
    model = MessageModel.BROADCASTING if config.broadcasting else MessageModel.CLUSTERING
    if members.message_model != model or members.consume_type != ConsumeType.PASSIVELY:
        text = (
            f"group {group} has members that consume as {members.consume_type},"
            f" {members.message_model}; this one would as {ConsumeType.PASSIVELY}, {model}."
            " Stop them first, or use another group"
        )
        yield StartRefused(ConfigError(text))
    theirs = {
        topic: subscription
        for topic, subscription in members.subscriptions.items()
        if not is_retry_topic(topic)
    }
    differences = subscription_differences(wanted, theirs)
    if differences:
        there = tuple(connection.client_id for connection in members.connections)
        yield SubscriptionsDiffer(differences, there)


def subscription_differences(
    ours: Mapping[str, Subscription], theirs: Mapping[str, Subscription]
) -> tuple[str, ...]:
    """Say topic by topic where two members' subscriptions differ."""
    return tuple(
        f"{topic}: {_shown(ours.get(topic))} here, {_shown(theirs.get(topic))} there"
        for topic in sorted(ours.keys() | theirs.keys())
        if _shown(ours.get(topic)) != _shown(theirs.get(topic))
    )


def _shown(subscription: Subscription | None) -> str:
    return "not subscribed" if subscription is None else subscription.filter_text


# As Java's, Go's and Python's gRPC clients make them: host@process@number@nanoseconds (base 36).
_GRPC_CLIENT = re.compile(r".+@\d+@\d+@-?[0-9a-z]+")


def speaks_grpc(member: ConsumerConnection) -> bool:
    """Whether a member is a gRPC client; only a proxy knows of those."""
    return _GRPC_CLIENT.fullmatch(member.client_id) is not None


def check_protocols(group: str, members: Iterable[ConsumerConnection]) -> Iterator[Found]:
    """Refuse a group with gRPC members: they take messages of queues that others hold."""
    grpc = sorted(member.client_id for member in members if speaks_grpc(member))
    if grpc:
        text = (
            f"group {group} has members over gRPC, which take no lock of a queue, so two members"
            f" would handle one queue at once: {', '.join(grpc)}. Stop them first, or use another"
            " group"
        )
        yield StartRefused(ConfigError(text))


def check_orders(
    client: Client, group: str, order: str, members: Iterable[ConsumerConnection]
) -> Iterator[Found]:
    """Refuse members that keep order in another way than ours, "queue" or "key"."""
    mixed = []
    for asked in orders_of(client, group, order, members):
        if asked.error is not None:
            yield NotReported(asked.error, member=asked.client_id)
        mixed += [asked.wrong] if asked.wrong else []
    if mixed:
        here, there = ("key", "queue") if order == _BY_KEY else ("queue", "key")
        text = (
            f"this member has order={here!r}, but members of group {group} keep order by"
            f" {there}: {', '.join(sorted(mixed))}. Stop them first, or use another group"
        )
        yield StartRefused(ConfigError(text))


@dataclass(frozen=True, slots=True)
class Asked:
    """A member that was asked for its order.

    Attributes:
        client_id: of the member.
        wrong: who it is, and how it keeps order, if in another way; "" if nothing is known of that.
        error: it did not answer.
    """

    client_id: str
    wrong: str = ""
    error: OrderlyError | None = None


def orders_of(
    client: Client, group: str, order: str, members: Iterable[ConsumerConnection]
) -> Iterator[Asked]:
    """Ask each member but ourselves; those that hang do not add up: the rest is left out.

    A group must not mix order="key" with order="queue": members by queue, Java's among them, know
    nothing of what is finished ahead. Our own members say their order in their running info;
    behind a proxy nobody can ask for that.
    """
    give_up = time.monotonic() + _PATIENCE
    for member in members:
        if member.client_id != client.client_id and time.monotonic() < give_up:
            yield _ask_order(client, group, member, by_key=order == _BY_KEY)


def _ask_order(client: Client, group: str, member: ConsumerConnection, *, by_key: bool) -> Asked:
    name = member.client_id
    if speaks_grpc(member):
        return Asked(name, f"{name} (gRPC)" if by_key else "")
    if member.language != Language.PYTHON.name:  # another client, and so by queue
        return Asked(name, f"{name} ({member.language})" if by_key else "")
    try:
        info = client.groups.running_info(group, name)
    except (ConfigError, NotAtProxy):  # has left meanwhile
        return Asked(name)
    except OrderlyError as error:
        return Asked(name, error=error)
    theirs = info.properties.get(_SETTING, "unknown")
    same = (theirs == _BY_KEY) == by_key
    return Asked(name, "" if same else f"{name} (order={theirs!r})")
