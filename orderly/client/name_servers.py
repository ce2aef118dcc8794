"""Questions to the name servers: where topics live, which topics and brokers there are."""

from __future__ import annotations

from orderly.client.calls import Calls
from orderly.errors import BrokerError, NameServerUnavailable, OrderlyError, RemotingError
from orderly.model import TopicRoute
from orderly.protocol.bodies import (
    ClusterInfo,
    decode_cluster_info,
    decode_route,
    decode_topic_list,
)
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.headers import GetRouteInfo, to_ext


class NameServers:
    """The name servers of one client. Thread-safe; every method blocks and may connect.

    One server is asked until it fails, then the next one (Java: NettyRemotingClient keeps one
    name server, too). Name servers do not know of each other, and one that has just started knows
    no topic yet: so a "no" is believed only when all say so.

    Args:
        addresses: at least one "host:port".
        calls: of the client.
    """

    def __init__(self, addresses: tuple[str, ...], calls: Calls) -> None:
        self.addresses = addresses
        self._calls = calls
        self._current = 0

    def route(self, topic: str) -> TopicRoute:
        """Where the topic's queues live.

        Raises:
            TopicNotFound: no name server knows the topic.
            NameServerUnavailable: none answered.
        """
        header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
        reply = self._ask(request(header.code, to_ext(header)), f"the route of topic {topic!r}")
        return decode_route(topic, reply.body)

    def topics(self) -> tuple[str, ...]:
        """All topics, sorted; also the system's own, %RETRY% and %DLQ% ones.

        Raises:
            NameServerUnavailable: none answered.
        """
        reply = self._ask(request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER), "all topics")
        return decode_topic_list(reply.body)

    def cluster(self) -> ClusterInfo:
        """All brokers with their addresses, and the clusters they belong to.

        Raises:
            NameServerUnavailable: none answered.
        """
        reply = self._ask(request(RequestCode.GET_BROKER_CLUSTER_INFO), "the clusters")
        return decode_cluster_info(reply.body)

    def ask_all(self, command: RemotingCommand, what: str) -> None:
        """Tell every name server, as they do not tell each other.

        Raises:
            OrderlyError: one did not do it; those before it have.
        """
        for address in self.addresses:
            self._calls.ask(address, command, what)

    def _ask(self, command: RemotingCommand, what: str) -> RemotingCommand:
        first = self._current
        refusal: BrokerError | None = None
        silence: RemotingError | None = None
        for step in range(len(self.addresses)):
            index = (first + step) % len(self.addresses)
            try:
                reply = self._calls.ask(self.addresses[index], command, what)
            except BrokerError as error:
                refusal = error
            except RemotingError as error:
                silence = error
            else:
                self._current = index
                return reply
        raise refusal or self._unavailable(silence)

    def _unavailable(self, cause: OrderlyError | None) -> NameServerUnavailable:
        error = NameServerUnavailable(
            f"no name server answered ({', '.join(self.addresses)}): {cause}",
            ", ".join(self.addresses),
        )
        error.__cause__ = cause
        return error
