"""Administration: topics, what brokers know about groups, and what is deleted for good.

Every broker knows only its own part, so every master is asked and the answers are merged. Groups
are changed by `group_admin`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from typing import TypeVar

from orderly.client.calls import ONLY_SUCCESS, Calls
from orderly.client.routes import NameServers, Routes
from orderly.config import check_group, check_topic
from orderly.config.arguments import (
    check_count,
    check_flag,
    check_given,
    check_kind,
    check_text,
    check_timeout,
)
from orderly.errors import (
    BrokerError,
    ConfigError,
    NotAtProxy,
    OrderlyError,
    RemotingError,
    RouteError,
    TopicNotFound,
)
from orderly.model import BrokerData, MessageQueue
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.groups import DeleteGroup, GroupConfig, decode_group_list, encode_group_config
from orderly.protocol.route import ClusterInfo
from orderly.protocol.statistics import (
    ConsumerConnections,
    GetConsumerConnections,
    GetConsumeStats,
    GetTopicStats,
    OffsetPair,
    TopicOffset,
    decode_connections,
    decode_consume_stats,
    decode_settings,
    decode_topic_stats,
)
from orderly.protocol.topics import (
    ATTRIBUTE,
    CreateTopic,
    DeleteTopicInBroker,
    DeleteTopicInNameServer,
    GetTopicConfig,
    MessageType,
    TopicConfig,
    decode_topic_config,
    decode_topic_configs,
)


class Masters:
    """The masters of a cluster, to be asked. Thread-safe; every method blocks."""

    def __init__(self, calls: Calls, name_servers: NameServers, routes: Routes) -> None:
        self._calls = calls
        self._name_servers = name_servers
        self._routes = routes

    def all(self) -> tuple[BrokerData, ...]:
        """All brokers the name servers know."""
        return tuple(self._name_servers.cluster().brokers.values())

    def with_members(self) -> Iterable[BrokerData]:
        """Those that know the members of groups; a proxy knows them for its brokers.

        Raises:
            NotAtProxy: a proxy, of which no route is known yet.
        """
        try:
            return self.all()
        except NotAtProxy:
            proxies = {broker.master: broker for broker in self._routes.brokers()}
            if not proxies:
                raise
            return proxies.values()

    def of(self, topic: str) -> tuple[BrokerData, ...]:
        """The brokers that hold queues of `topic`."""
        return self._routes.get(check_topic(topic)).brokers

    def ask(
        self,
        broker: BrokerData,
        command: RemotingCommand,
        what: str,
        *,
        accept: Collection[int] = ONLY_SUCCESS,
        timeout: float | None = None,
    ) -> RemotingCommand:
        """Ask one broker's master; arguments and errors as `Calls.ask`.

        Raises:
            RouteError: the broker has no master at the moment.
        """
        if not broker.master:
            raise RouteError(
                f"broker {broker.broker_name!r} has no master at the name server; its part is"
                " unknown until it is back"
            )
        return self._calls.ask(broker.master, command, what, accept=accept, timeout=timeout)

    def ask_each(
        self,
        brokers: Iterable[BrokerData],
        command: RemotingCommand,
        what: str,
        *,
        accept: Collection[int] = ONLY_SUCCESS,
    ) -> list[RemotingCommand]:
        """Ask the master of each broker, one after another; the first failure is raised."""
        return [self.ask(broker, command, what, accept=accept) for broker in brokers]


# --- questions, and topics ------------------------------------------------------------------------


V = TypeVar("V")

KNOWN_OR_NOT = frozenset({ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})
_ONLINE_OR_NOT = frozenset({ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE})


class Admin:
    """Administrative requests of one client. Thread-safe; every method blocks.

    If a broker does not answer, the method raises: it never returns a part as if it were
    everything. Names are the broker's, with their namespace.
    """

    def __init__(self, masters: Masters, name_servers: NameServers, routes: Routes) -> None:
        self._masters = masters
        self._name_servers = name_servers
        self._routes = routes

    def topics(self) -> tuple[str, ...]:
        """All topics the name servers know, sorted; the system's own, %RETRY% and %DLQ% too."""
        return self._name_servers.topics()

    def cluster(self) -> ClusterInfo:
        """All brokers with their addresses, and the clusters they belong to."""
        return self._name_servers.cluster()

    def create_topic(
        self,
        topic: str,
        queues: int = 8,
        *,
        order: bool = True,
        cluster: str | None = None,
        broker: str | None = None,
        message_type: MessageType | None = None,
    ) -> bool:
        """Create a topic on each master of a cluster. A topic that exists is left as it is.

        Args:
            topic: 1-127 characters of `%|a-zA-Z0-9_-`.
            queues: for each broker.
            order: mark it as ordered. Then the broker refuses sends while a part of the topic is
                not writable; otherwise keys would move.
            cluster: its name; may be left out if there is only one.
            broker: create it on this broker only.
            message_type: what proxies let clients send to it; None: not declared, NORMAL.

        Returns:
            True if it was created. False if it exists with these queues, and with this type if one
            is given; its other settings are neither compared nor changed.

        Raises:
            ConfigError: a bad name or number, an unknown or an ambiguous cluster or broker; or
                the topic exists with other queues (to change them moves keys) or another type.
            RouteError: no broker is registered at the name server.
            OrderlyError: no answer, so it is not known whether the topic exists; or it was not
                created.
        """
        check_topic(topic)
        check_count("queues", queues, 1)
        check_flag("order", order)
        check_given("cluster", cluster, str, "a name")
        check_given("broker", broker, str, "a name")
        if message_type is not None and message_type not in tuple(MessageType):
            raise ConfigError(f"message_type must be one of {listed(MessageType)}, or None")
        header = CreateTopic(
            topic=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            order=order,
            attributes=None if message_type is None else f"+{ATTRIBUTE}={message_type}",
        )
        chosen = _chosen(self.cluster(), cluster, broker)
        if present := self._present(topic, chosen, whole=message_type is not None):
            _require_queues(topic, present, {data.broker_name: queues for data in chosen})
            if message_type is not None:
                _require_type(topic, present, [data.broker_name for data in chosen], message_type)
            return False
        self._masters.ask_each(
            chosen, request(header.code, to_ext(header)), f"topic {topic!r} to be made"
        )
        self._routes.forget(topic)
        return True

    def _present(
        self, topic: str, chosen: Iterable[BrokerData], *, whole: bool
    ) -> dict[str, TopicConfig]:
        """The topic as its brokers have it, by name: name servers keep the route of a deleted one.

        Once a broker has it, the route is believed for those that do not answer; but it has
        numbers of queues only, so not if the `whole` is wanted.
        """
        try:
            route = self._name_servers.route(topic)
        except TopicNotFound:
            return {}
        brokers = {broker.broker_name: broker for broker in (*route.brokers, *chosen)}
        found, silent = dict[str, TopicConfig](), dict[str, OrderlyError]()
        for name in sorted(brokers):
            try:
                config = self.topic_config(topic, brokers[name])
            except (RemotingError, RouteError) as error:
                silent[name] = error
            else:
                found |= {} if config is None else {name: config}
        if silent and (whole or not found):
            raise next(iter(silent.values()))
        for data in route.queues:
            if data.broker_name in silent:
                found[data.broker_name] = TopicConfig(
                    name=topic, read_queues=data.read_queues, write_queues=data.write_queues
                )
        return found

    def topic_config(
        self, topic: str, broker: BrokerData, *, timeout: float | None = None
    ) -> TopicConfig | None:
        """The topic's settings as a broker itself has them; None if it has no such topic.

        A name server can show an older state, or a broker that is being drained. Brokers before
        5.0 do not return the settings of one topic, so they are asked for those of all topics.

        Args:
            topic: its name.
            broker: only its master is asked.
            timeout: seconds; None: the client's.
        """
        check_kind("broker", broker, BrokerData)
        check_timeout("timeout", timeout)
        header = GetTopicConfig(topic=check_topic(topic))
        what = f"the settings of topic {topic!r}"
        try:
            command = request(header.code, to_ext(header))
            reply = self._masters.ask(broker, command, what, accept=KNOWN_OR_NOT, timeout=timeout)
        except TopicNotFound:
            return None
        if reply.code == ResponseCode.SUCCESS:
            return decode_topic_config(reply.body)
        everything = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        reply = self._masters.ask(broker, everything, what, timeout=timeout)
        return decode_topic_configs(reply.body).topics.get(topic)

    def put_topic(self, config: TopicConfig, broker: BrokerData) -> None:
        """Give a topic other settings on one broker; its attributes stay.

        Queues and permission decide where keys go and what is left behind.
        `monitoring.topic_growth` changes them safely.
        """
        check_kind("config", config, TopicConfig)
        check_kind("broker", broker, BrokerData)
        header = CreateTopic(
            topic=config.name,
            read_queue_nums=config.read_queues,
            write_queue_nums=config.write_queues,
            perm=config.perm,
            order=config.order,
            topic_filter_type=config.filter_type,
            topic_sys_flag=config.sys_flag,
        )
        what = f"topic {config.name!r} to be changed on broker {broker.broker_name!r}"
        self._masters.ask(broker, request(header.code, to_ext(header)), what)

    def grow_topic(
        self, topic: str, broker: BrokerData, queues: int, present: TopicConfig | None
    ) -> None:
        """Give a topic at least `queues` queues on one broker, or create it there.

        Only for topics whose queues are not chosen by key. Where the number of queues decides the
        place of a key, `create_topic` refuses to change it.

        Args:
            topic: its name.
            broker: only its master is asked.
            queues: to read and to write; a larger number stays.
            present: what `topic_config` returned; its other settings stay.
        """
        check_count("queues", queues, 1)
        check_given("present", present, TopicConfig)
        found = present or TopicConfig(name=check_topic(topic), read_queues=0, write_queues=0)
        grown = replace(
            found,
            read_queues=max(queues, found.read_queues),
            write_queues=max(queues, found.write_queues),
        )
        self.put_topic(grown, broker)

    def broker_settings(self, broker: BrokerData) -> dict[str, str]:
        """A broker's configuration, by name; values are texts as the broker writes them.

        For example `fileReservedTime`, the hours for which messages are kept (BrokerConfig,
        MessageStoreConfig in Java).
        """
        check_kind("broker", broker, BrokerData)
        what = f"the configuration of broker {broker.broker_name!r}"
        reply = self._masters.ask(broker, request(RequestCode.GET_BROKER_CONFIG), what)
        return decode_settings(reply.body)

    def topic_stats(self, topic: str) -> dict[MessageQueue, TopicOffset]:
        """Oldest and next offset of every queue of the topic.

        Raises:
            TopicNotFound: there is no such topic.
        """
        check_text("topic", topic, empty=False)
        header = GetTopicStats(topic=topic)
        command = request(header.code, to_ext(header))
        what = f"the offsets of topic {topic!r}"
        replies = self._masters.ask_each(self._masters.of(topic), command, what)
        return _merged(decode_topic_stats(reply.body) for reply in replies)

    def consume_stats(self, group: str, topic: str | None = None) -> dict[MessageQueue, OffsetPair]:
        """The group's offsets in every queue of one topic, or of all topics it subscribes to.

        A queue that was never committed shows 0, as if 0 were its offset;
        `BrokerCalls.query_offset` distinguishes the two. With members online only subscribed topics
        are listed. An unknown group has an empty table; if you give a topic, it shows 0 everywhere.
        """
        if topic is not None:
            check_topic(topic)
        header = GetConsumeStats(consumer_group=check_group(group), topic=topic)
        command = request(header.code, to_ext(header))
        brokers = self._masters.of(topic) if topic is not None else self._masters.all()
        replies = self._masters.ask_each(brokers, command, f"the offsets of group {group!r}")
        return _merged(decode_consume_stats(reply.body) for reply in replies)

    def consumer_connections(self, group: str) -> ConsumerConnections | None:
        """The group's members online and their subscriptions; None if nobody is online."""
        header = GetConsumerConnections(consumer_group=check_group(group))
        replies = self._masters.ask_each(
            self._masters.with_members(),
            request(header.code, to_ext(header)),
            f"the members of group {group!r}",
            accept=_ONLINE_OR_NOT,
        )
        online = [decode_connections(r.body) for r in replies if r.code == ResponseCode.SUCCESS]
        return reduce(joined, online) if online else None

    def groups(self) -> tuple[str, ...]:
        """The names of all consumer groups, sorted; the system's own too."""
        command = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        replies = self._masters.ask_each(self._masters.all(), command, "all consumer groups")
        return tuple(sorted({name for r in replies for name in decode_group_list(r.body)}))


def _chosen(info: ClusterInfo, cluster: str | None, broker: str | None) -> list[BrokerData]:
    """The brokers a new topic goes to."""
    if not info.brokers:
        raise RouteError(
            "no broker is registered at the name server: is one running? A broker registers itself"
            " when it starts, and again every 30 s"
        )
    if broker is not None:
        _require_known("broker", broker, info.brokers)
        return [info.brokers[broker]]
    if cluster is None:
        if len(info.clusters) != 1:
            raise ConfigError(f"name the cluster that the topic goes to: {listed(info.clusters)}")
        (cluster,) = info.clusters
    _require_known("cluster", cluster, info.clusters)
    return [info.brokers[name] for name in sorted(info.clusters[cluster]) if name in info.brokers]


def _require_queues(
    topic: str, present: Mapping[str, TopicConfig], wanted: Mapping[str, int]
) -> None:
    counts = {name: (config.read_queues, config.write_queues) for name, config in present.items()}
    if all(counts.get(name) == (queues, queues) for name, queues in wanted.items()):
        return
    has = listed(
        f"{name}: {write}" if read == write else f"{name}: {read} to read and {write} to write"
        for name, (read, write) in counts.items()
    )
    raise ConfigError(
        f"topic {topic} already exists, with queues {has}; wanted:"
        f" {listed(f'{name}: {queues}' for name, queues in wanted.items())}. Other queues would"
        " move keys and strand messages. Keep its queues, drain and grow the topic with `orderly"
        f" topic grow {topic}`, or choose another name"
    )


def _require_type(
    topic: str, present: Mapping[str, TopicConfig], brokers: Iterable[str], wanted: MessageType
) -> None:
    for name in brokers:
        if present[name].message_type != wanted:
            raise ConfigError(
                f"topic {topic} already exists, with type {present[name].message_type} on broker"
                f" {name}; wanted: {wanted}. Keep its type, or choose another name (mqadmin"
                " updateTopic -a +message.type=… changes the type; do it only when the topic holds"
                " no message of another type)"
            )


def _require_known(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise ConfigError(f"the name server knows no {kind} {name!r}; it knows: {listed(known)}")


def listed(names: Iterable[str]) -> str:
    """Names for an error's text."""
    return ", ".join(sorted(names)) or "none"


def _merged(tables: Iterable[Mapping[MessageQueue, V]]) -> dict[MessageQueue, V]:
    return {queue: value for table in tables for queue, value in table.items()}


def joined(one: ConsumerConnections, other: ConsumerConnections) -> ConsumerConnections:
    """Both brokers' members; each member is connected to both."""
    members = {c.client_id: c for c in (*one.connections, *other.connections)}
    return replace(
        one,
        connections=tuple(members[client_id] for client_id in sorted(members)),
        subscriptions={**one.subscriptions, **other.subscriptions},
    )


# --- make a group, delete a group, delete a topic: on every broker, and there is no way back ------


class Housekeeping:
    """Administrative requests that make and delete. Thread-safe; every method blocks.

    The first broker that does not answer is raised, and the others stay as they were: the same
    call again goes on. Names are the broker's, with their namespace.
    """

    def __init__(
        self, masters: Masters, name_servers: NameServers, routes: Routes, admin: Admin
    ) -> None:
        self._masters = masters
        self._admin = admin
        self._name_servers = name_servers
        self._routes = routes

    def put_group(self, config: GroupConfig) -> None:
        """Make a group, or replace its settings.

        For brokers that do not make groups by themselves (autoCreateSubscriptionGroup=false).
        """
        check_group(config.name)
        code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        command = request(code, body=encode_group_config(config))
        self._masters.ask_each(self._masters.all(), command, f"group {config.name!r} to be made")

    def delete_group(self, group: str) -> None:
        """Delete a group's settings and offsets; its members must be gone, or it comes again.

        Its %RETRY% and %DLQ% topics stay, to be deleted as any topic.
        """
        header = DeleteGroup(group_name=check_group(group), clean_offset=True, remove_offset=True)
        command = request(header.code, to_ext(header))
        self._masters.ask_each(self._masters.all(), command, f"group {group!r} to be deleted")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic with all its messages; a missing topic counts as deleted."""
        check_topic(topic)
        for broker in self._masters.all():
            self._delete_at(broker, topic)
        header = DeleteTopicInNameServer(topic=topic)
        what = f"the route of topic {topic!r} to be deleted"
        self._name_servers.ask_all(request(header.code, to_ext(header)), what)
        self._routes.forget(topic)

    def _delete_at(self, broker: BrokerData, topic: str) -> None:
        """Delete it at one broker.

        With timerWheelEnable=false a 5.5.0 broker deletes it and then fails at a counter of its
        timer (AdminBrokerProcessor.deleteTopicInBroker).
        """
        header = DeleteTopicInBroker(topic=topic)
        command = request(header.code, to_ext(header))
        try:
            self._masters.ask(broker, command, f"topic {topic!r} to be deleted")
        except BrokerError:
            if self._admin.topic_config(topic, broker) is not None:
                raise
