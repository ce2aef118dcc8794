"""What is checked before a consumer joins its group: better a clear error than an idle member.

What only an operator can judge is a warning: while a new version is rolled out, members may differ
for a while. A question that a broker does not answer stops nobody.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from orderly.client import Client
from orderly.config import ConsumerConfig
from orderly.consumer.company import Company
from orderly.errors import ConfigError, OrderlyError
from orderly.model import TopicRoute
from orderly.namespace import is_retry_topic
from orderly.protocol.group_config import GroupConfig
from orderly.protocol.heartbeat import ALL_TAGS, BY_TAG, ConsumeType, MessageModel, Subscription
from orderly.protocol.message_types import MessageType
from orderly.protocol.stats_bodies import ConsumerConnections


def check_start(
    client: Client,
    group: str,
    subscriptions: Iterable[Subscription],
    config: ConsumerConfig,
    log: Any,
) -> None:
    """Check topics, filters, the group's settings and its other members.

    Raises:
        ConfigError: the consumer would get nothing, or disturb the members that are there.
        TopicNotFound: a topic does not exist.
        OrderlyError: no name server answered.
    """
    wanted = {subscription.topic: subscription for subscription in subscriptions}
    routes = [client.routes.get(topic) for topic in wanted]
    for route in routes:
        check_readable(route)
    for subscription in wanted.values():
        check_filter(client, group, subscription, log)
    for name in sorted({broker.broker_name for route in routes for broker in route.brokers}):
        with _answered(log, broker=name):
            settings = client.groups.group_config(group, name)
            check_settings(settings, name, config, log)
            if not settings.orderly and config.require_ordered_group and not config.broadcasting:
                check_types(client, group, routes, name)
    with _answered(log):
        members = client.admin.consumer_connections(group)
        if members is not None:
            check_members(group, wanted, config, members, log)
            if not config.broadcasting:
                Company(client, group, config.order, log).check(members.connections)


@contextlib.contextmanager
def _answered(log: Any, **where: str) -> Iterator[None]:
    """Go on without an answer: one broker that hangs or refuses must not keep a service down."""
    try:
        yield
    except ConfigError:
        raise
    except OrderlyError as error:
        log.warning("start.not_checked", **where, error=str(error))


def check_readable(route: TopicRoute) -> None:
    """Refuse a topic of which nothing may be read.

    Raises:
        ConfigError: no broker lets its queues be read.
    """
    if not route.read_queues():
        raise ConfigError(
            f"no queue of topic {route.topic} may be read: its read permission is off, or it has no"
            " read queues; set them at the broker (mqadmin updateTopicPerm, updateTopic)"
        )


def check_filter(client: Client, group: str, subscription: Subscription, log: Any) -> None:
    """Have the brokers check a filter that is not by tags.

    Raises:
        ConfigError: a broker cannot read it, or does not filter that way.
    """
    if subscription.expression_type != BY_TAG:
        with _answered(log):
            client.groups.check_filter(group, subscription, client.client_id)


def check_settings(settings: GroupConfig, broker: str, config: ConsumerConfig, log: Any) -> None:
    """Compare what a broker lets the group do with what we want.

    Raises:
        ConfigError: the broker would refuse our pulls.
    """
    remedy = "allow it with mqadmin updateSubGroup"
    if not settings.consume_enabled:
        raise ConfigError(f"broker {broker} forbids group {settings.name} to consume; {remedy}")
    if config.broadcasting and not settings.broadcast_enabled:
        raise ConfigError(f"broker {broker} forbids group {settings.name} to broadcast; {remedy}")
    if not settings.orderly:
        log.info(  # it matters to who adds gRPC members; a FIFO topic refuses
            "group.not_ordered",
            broker=broker,
            hint="this member keeps the order, gRPC members would not: mark the group with mqadmin"
            " updateSubGroup -o true",
        )


def check_types(client: Client, group: str, routes: Iterable[TopicRoute], broker: str) -> None:
    """Refuse FIFO topics for a group that a broker does not know as ordered.

    A topic is declared FIFO for gRPC clients. Those of such a group are given messages of one
    queue side by side, past our locks; a topic for remoting clients only needs no type.

    Raises:
        ConfigError: a topic is FIFO on this broker.
    """
    for route in routes:
        data = route.broker(broker)
        found = data and client.admin.topic_config(route.topic, data)
        if found and found.message_type == MessageType.FIFO:
            raise ConfigError(
                f"topic {route.topic} is of type FIFO, but broker {broker} does not know group"
                f" {group} as ordered, so gRPC members would get messages of one key side by side."
                f" Mark it (mqadmin updateSubGroup -c <cluster> -g {group} -o true), or set"
                " ConsumerConfig.require_ordered_group=False if no gRPC client ever joins"
            )


def check_members(
    group: str,
    wanted: dict[str, Subscription],
    config: ConsumerConfig,
    members: ConsumerConnections,
    log: Any,
) -> None:
    """Compare us with the members that are there.

    Raises:
        ConfigError: they consume in another way, so that both would break each other's order.
    """
    if not members.connections:
        return
    model = MessageModel.BROADCASTING if config.broadcasting else MessageModel.CLUSTERING
    if members.message_model != model or members.consume_type != ConsumeType.PASSIVELY:
        raise ConfigError(
            f"group {group} has members that consume as {members.consume_type},"
            f" {members.message_model}; this one would as {ConsumeType.PASSIVELY}, {model}."
            " Stop them first, or use another group"
        )
    theirs = {
        topic: subscription
        for topic, subscription in members.subscriptions.items()
        if not is_retry_topic(topic)
    }
    differences = subscription_differences(wanted, theirs)
    if differences:
        log.warning(
            "group.subscriptions_differ",
            differences=differences,
            members=tuple(connection.client_id for connection in members.connections),
            hint="the last heartbeat wins at the broker, so messages may be missed: give all"
            " members the same topics and filters",
        )


def subscription_differences(
    ours: dict[str, Subscription], theirs: dict[str, Subscription]
) -> tuple[str, ...]:
    """Say topic by topic where two members' subscriptions differ."""
    return tuple(
        f"{topic}: {_shown(ours.get(topic))} here, {_shown(theirs.get(topic))} there"
        for topic in sorted(ours.keys() | theirs.keys())
        if _shown(ours.get(topic)) != _shown(theirs.get(topic))
    )


def _shown(subscription: Subscription | None) -> str:
    if subscription is None:
        return "not subscribed"
    if subscription.expression_type != BY_TAG:
        return f"{subscription.expression_type} {subscription.expression!r}"
    return repr(" || ".join(sorted(subscription.tags)) or ALL_TAGS)
