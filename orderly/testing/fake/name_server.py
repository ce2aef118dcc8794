"""The name server: which brokers there are, which topics they announced, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable

from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.route import ClusterInfo, GetRouteInfo, encode_cluster_info, encode_route
from orderly.protocol.topics import DeleteTopicInNameServer, TopicConfig, encode_topic_list
from orderly.testing.fake.exchange import Call, RequestRefused

_STANDARD_JSON_SINCE = 401  # ordinal of release 4.9.4


class NameServer:
    """What brokers announced. A broker that goes takes its queues along. Not thread-safe."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self._brokers: dict[str, BrokerData] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}

    def join(self, name: str, address: str) -> None:
        """A broker is there."""
        self._brokers[name] = BrokerData(name, self.cluster, {0: address})

    def leave(self, name: str) -> None:
        """A broker is gone."""
        self._brokers.pop(name, None)
        for queues in self._topics.values():
            queues.pop(name, None)

    def announce(self, broker: str, configs: Iterable[TopicConfig], broker_perm: int) -> None:
        """A broker announces its topics; what it may not do as a whole, none of its queues may."""
        for config in configs:
            self._topics.setdefault(config.name, {})[broker] = QueueData(
                broker,
                config.read_queues,
                config.write_queues,
                Permission(config.perm & broker_perm),
                config.sys_flag,
            )

    def forget(self, topic: str) -> None:
        """Forget a topic."""
        self._topics.pop(topic, None)

    def topics(self) -> list[str]:
        """All topics with a broker."""
        return [topic for topic, queues in self._topics.items() if queues]

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic's queues are; None if nowhere."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        brokers = tuple(self._brokers[name] for name in queues if name in self._brokers)
        return TopicRoute(topic, tuple(queues.values()), brokers)

    def info(self) -> ClusterInfo:
        """All brokers."""
        return ClusterInfo(dict(self._brokers), {self.cluster: tuple(self._brokers)})


def route(state: NameServer, call: Call) -> RemotingCommand:
    """Answer code 105."""
    header = call.read(GetRouteInfo)
    found = state.route(header.topic)
    if found is None:
        raise no_route(header.topic)
    standard = header.accept_standard_json_only or call.command.version >= _STANDARD_JSON_SINCE
    return call.reply(body=encode_route(found, standard=standard))


def no_route(topic: str) -> RequestRefused:
    """The refusal of a topic that nobody announced."""
    remark = f"No topic route info in name server for the topic: {topic}"
    return RequestRefused(ResponseCode.TOPIC_NOT_EXIST, remark)


def clusters(state: NameServer, call: Call) -> RemotingCommand:
    """Answer code 106."""
    return call.reply(body=encode_cluster_info(state.info()))


def topic_list(state: NameServer, call: Call) -> RemotingCommand:
    """Answer code 206."""
    return call.reply(body=encode_topic_list(state.topics()))


def delete_topic(state: NameServer, call: Call) -> RemotingCommand:
    """Answer code 216."""
    state.forget(call.read(DeleteTopicInNameServer).topic)
    return call.reply()
