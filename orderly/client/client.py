"""The client: connections, routes, membership and requests of one process, wired together.

Producers, consumers and the command line are built on it; several of them may share one.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Self

from orderly.client.background import Schedule
from orderly.client.calls import Calls
from orderly.client.connection import Connection
from orderly.client.heartbeat import Heartbeats
from orderly.client.lost_connections import LostConnections
from orderly.client.peer_requests import PeerRequests
from orderly.client.pool import Connections
from orderly.client.routes import NameServers, Routes
from orderly.client.security import security_of
from orderly.clock import AwakeClock
from orderly.config import ClientConfig
from orderly.config.client import at_name_server
from orderly.errors import LifecycleError, OrderlyError, RouteError
from orderly.interruptions import shielded
from orderly.model import MessageQueue
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.statistics import retention_of

if TYPE_CHECKING:
    from orderly.client.admin import Admin, Housekeeping, Masters
    from orderly.client.broker import BrokerCalls
    from orderly.client.group_admin import GroupAdmin

_MAX_NOTICES = 16  # of a group, that wait to be passed on


class Client:
    """One member of a RocketMQ cluster. Thread-safe.

    Requests work from construction to `close`; `start` begins the background work (route
    refreshes, heartbeats).

        with Client(namesrv="localhost:9876") as client:
            print(client.admin.topics())

    Args:
        config: settings.
        namesrv: "host:port;host:port"; wins over the config's, and both over ORDERLY_NAMESRV.

    Attributes:
        client_id: "ip@pid#random", new for each client; locks and allocation use it.
        config: the settings.
        schedule: a timer thread for work that must not block.
        awake: the clock of deadlines that accuse somebody; see `orderly.awake`.
        connections, name_servers, routes, brokers, heartbeat, admin, groups, housekeeping: see
            their classes.

    Raises:
        ConfigError: no name server is set, or a bad setting.
    """

    def __init__(self, config: ClientConfig | None = None, *, namesrv: str = "") -> None:
        self.config = at_name_server(config, namesrv)
        self.client_id = _new_client_id(self.config.addresses[0])
        self.schedule = Schedule()
        self.awake = AwakeClock()
        self.connections = Connections(
            awake=self.awake,
            connect_timeout=self.config.connect_timeout,
            max_frame=self.config.max_frame,
            on_request=self._on_request,
            on_open=self._on_open,
            on_loss=self._on_loss,
            security=security_of(self.config),
        )
        self._calls = Calls(self.connections, self.config.request_timeout)
        self.name_servers = NameServers(self.config.addresses, self._calls)
        self.routes = Routes(
            self.name_servers.route, self.config.route_interval, lambda: self.behind_proxy
        )
        interval = self.config.heartbeat_interval
        self.heartbeat = Heartbeats(self._calls, self.routes, self.client_id, interval)
        self._lost = LostConnections(self._calls, self.client_id, self.heartbeat.producers)
        self._peer_requests = PeerRequests(
            self.heartbeat.answers_of, self._members_changed, redact=self.config.redacts
        )
        self._changed: list[str] = []  # the groups of the notices that wait
        self._lifecycle = threading.Lock()
        self._started = False
        self._closed = False

    # Each is imported when it is first used: a look at a backlog needs none of them. They keep no
    # state, so that two threads may well make one each.

    @cached_property
    def brokers(self) -> BrokerCalls:
        """Requests to brokers about queues."""
        from orderly.client.broker import BrokerCalls  # noqa: PLC0415

        return BrokerCalls(self._calls, self.routes, self.client_id, self._lost)

    @cached_property
    def admin(self) -> Admin:
        """Questions about topics and groups."""
        from orderly.client.admin import Admin  # noqa: PLC0415

        return Admin(self._masters, self.name_servers, self.routes)

    @cached_property
    def groups(self) -> GroupAdmin:
        """Requests about groups and their members."""
        from orderly.client.group_admin import GroupAdmin  # noqa: PLC0415

        return GroupAdmin(self._masters, self.admin, self.routes)

    @cached_property
    def housekeeping(self) -> Housekeeping:
        """Requests that make and delete."""
        from orderly.client.admin import Housekeeping  # noqa: PLC0415

        return Housekeeping(self._masters, self.name_servers, self.routes, self.admin)

    @cached_property
    def _masters(self) -> Masters:
        from orderly.client.admin import Masters  # noqa: PLC0415

        return Masters(self._calls, self.name_servers, self.routes)

    def start(self) -> Self:
        """Begin the background work. Does nothing on a client that runs already (it can be shared).

        Raises:
            LifecycleError: after `close`, or in a forked child of the process that made it.
        """
        self.connections.check_process()
        shielded(self._start)
        return self

    def _start(self) -> None:
        with self._lifecycle:
            if self._closed:
                raise LifecycleError("the client is closed; make a new one")
            if not self._started:
                self._started = True
                self.routes.start()
                self.heartbeat.start()

    @property
    def behind_proxy(self) -> bool:
        """Whether the routes that are known so far lead to a proxy."""
        return bool(self.connections.proxies)

    def close(self) -> None:
        """Leave all groups, end the background work, close all connections. Idempotent.

        Requests in flight fail with ConnectionLost. In a forked child it does nothing: connections
        and memberships are the parent's.
        """
        if not self.connections.foreign:
            shielded(self._close)

    def _close(self) -> None:
        with self._lifecycle:
            if self._closed:
                return
            self._closed = True
        self.heartbeat.close()
        self.routes.close()
        self.connections.close()
        self._peer_requests.close()
        self.schedule.close()
        self.awake.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _on_request(self, connection: Connection, command: RemotingCommand) -> None:
        self._peer_requests.receive(connection, command)

    def _members_changed(self, group: str) -> None:
        """Pass a notice on, off the reader thread. One that follows many says nothing new."""
        if self.heartbeat.concerns(group) and self._changed.count(group) < _MAX_NOTICES:
            self._changed.append(group)
            self.schedule.after(0, self._pass_on)

    def _pass_on(self) -> None:
        self.heartbeat.members_changed(self._changed.pop(0))

    def _on_open(self, connection: Connection) -> None:
        self.heartbeat.connected(connection)

    def _on_loss(self, connection: Connection) -> None:
        if connection.address in self.routes.broker_addresses():
            self._lost.note(connection)
        self.heartbeat.disconnected(connection)


def _new_client_id(name_server: str) -> str:
    """Java's "ip@pid", plus what keeps two containers with pid 1 apart."""
    return f"{_own_ip(name_server)}@{os.getpid()}#{os.urandom(4).hex()}"


def _own_ip(name_server: str) -> str:
    """The address this machine would use to reach the name server; only for people to read."""
    host, _, port = name_server.rpartition(":")
    try:
        family, kind, *_, target = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    except OSError:  # unresolvable at the moment: the first request will say so
        return "127.0.0.1"


# --- for how long a broker keeps messages: it deletes whole files by their age --------------------


def retention(client: Client, queue: MessageQueue) -> float:
    """Return the seconds for which the broker of `queue` keeps messages, if its disk is not full.

    Raises:
        OrderlyError: it does not answer, or does not say.
    """
    name = queue.broker_name
    broker = client.routes.get(queue.topic).broker(name)
    if broker is None:
        raise RouteError(f"broker {name} is not in the route of {queue.topic}")
    seconds = retention_of(client.admin.broker_settings(broker))
    if seconds is None:
        raise OrderlyError(f"broker {name} does not say how long it keeps messages")
    return seconds
