"""One question to several masters: every broker knows only its own part."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from orderly.client.calls import ONLY_SUCCESS, Calls
from orderly.client.name_servers import NameServers
from orderly.client.routes import Routes
from orderly.config import check_topic
from orderly.errors import RouteError
from orderly.model import BrokerData
from orderly.protocol.frame import RemotingCommand


class Masters:
    """The masters of a cluster, to be asked. Thread-safe; every method blocks."""

    def __init__(self, calls: Calls, name_servers: NameServers, routes: Routes) -> None:
        self._calls = calls
        self._name_servers = name_servers
        self._routes = routes

    def all(self) -> tuple[BrokerData, ...]:
        """All brokers the name servers know."""
        return tuple(self._name_servers.cluster().brokers.values())

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
