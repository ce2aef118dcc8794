"""FakeBroker: a name server and brokers in this process, for tests that need no JVM."""

from __future__ import annotations

import socket
from typing import Self

from orderly.config import check_topic
from orderly.config.arguments import (
    check_count,
    check_kind,
    check_number,
    check_port,
    check_text,
    check_texts,
)
from orderly.errors import ConfigError, EmbeddedBrokerError, LifecycleError
from orderly.testing.fake.cluster import NAME_SERVER, PROXY, FakeCluster
from orderly.testing.fake.faults import Fault, Script
from orderly.testing.fake.server import FakeServer, listening_socket

_LONGEST_JUMP = 100 * 366 * 86_400.0  # seconds


class FakeBroker:
    """A RocketMQ cluster on loopback, inside this process; starts in milliseconds.

    It speaks the real protocol and answers as RocketMQ 5.5.0 with default settings does, to every
    request of this library: locks with their 60 s, retries and dead letters, resets, long polls. If
    you give `proxy` as the name server, it answers as RocketMQ's proxy does. It does not filter by
    SQL92, has no transactions, ACLs or slaves, and keeps everything in memory.

        with FakeBroker() as broker:
            broker.create_topic("orders", queues=4)
            producer = OrderlyProducer(namesrv=broker.namesrv)

    Thread-safe, except `start` and `stop`.

    Args:
        brokers: the brokers' names.
        namesrv_port: the name server's port; 0: a free one.
    """

    def __init__(self, *, brokers: tuple[str, ...] = ("broker-a",), namesrv_port: int = 0) -> None:
        check_texts("brokers", brokers)
        check_port("namesrv_port", namesrv_port)
        if not brokers or len(set(brokers)) != len(brokers) or not all(brokers):
            raise ConfigError(f"brokers of a fake need names that differ, not {brokers}")
        self.brokers = tuple(brokers)
        self._wanted_port = namesrv_port
        self._ports: dict[str, int] = {}
        self._script = Script()
        self._server: FakeServer | None = None

    # --- where it is ---------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The name server's address, "127.0.0.1:port"."""
        return self._address(NAME_SERVER)

    @property
    def proxy(self) -> str:
        """The proxy's address, "127.0.0.1:port": a proxy in cluster mode, at its remoting port."""
        return self._address(PROXY)

    @property
    def broker_name(self) -> str:
        """The first broker's name."""
        return self.brokers[0]

    @property
    def broker_address(self) -> str:
        """The first broker's address, "127.0.0.1:port"."""
        return self._address(self.broker_name)

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Begin to serve.

        Raises:
            EmbeddedBrokerError: the port is taken.
            LifecycleError: it runs.
        """
        if self._server is not None:
            raise LifecycleError("the fake broker is already running")
        wanted = {NAME_SERVER: self._wanted_port} | dict.fromkeys((*self.brokers, PROXY), 0)
        listeners = {server: _listen(port) for server, port in wanted.items()}
        self._ports = {server: sock.getsockname()[1] for server, sock in listeners.items()}
        brokers = {name: self._address(name) for name in self.brokers}
        cluster = FakeCluster(brokers, self._address(PROXY))
        self._server = FakeServer(cluster, self._script)
        self._server.start()
        for server, sock in listeners.items():
            self._server.listen(server, sock)
        return self

    def stop(self) -> None:
        """End all connections; all data is gone. Idempotent."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- what is in it -------------------------------------------------------------------------

    def create_topic(self, name: str, queues: int = 8) -> str:
        """Create a topic with this many queues on each broker, or change its queues.

        Returns:
            Its name.
        """
        check_topic(name)
        check_count("queues", queues, 1)
        with self._running().changing() as cluster:
            cluster.create_topic(name, queues)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic on all brokers, with its messages and the groups' offsets in it.

        If you create it again, it begins at offset 0; members that do not know of it can put an old
        offset back.
        """
        check_topic(name)
        with self._running().changing() as cluster:
            cluster.delete_topic(name)

    # --- faults --------------------------------------------------------------------------------

    def script(self, *faults: Fault) -> None:
        """Make requests fail from now on, see `Fault`. Without a fault: stop all faults."""
        for fault in faults:
            check_kind("each of faults", fault, Fault)
        with self._running().changing():
            for fault in faults:
                self._script.add(fault)
            if not faults:
                self._script.clear()

    def kill_broker(self, name: str = "") -> None:
        """End a broker at once (default: the first): connections are cut; the name server goes on.

        As with a real broker that is killed, offsets that groups committed since the last flush are
        lost (it flushes every 5 s, for the first time 10 s after its start). Messages are not lost.
        """
        name = self._name(name)
        server = self._running()
        server.cut_off(name)
        server.kill(name)

    def restart_broker(self, name: str = "") -> None:
        """Shut a broker down cleanly if it runs, and start it again.

        It has the same port, the same messages, and no locks.
        """
        name = self._name(name)
        server = self._running()
        server.cut_off(name)
        with server.changing() as cluster:
            cluster.stop_broker(name)
            cluster.start_broker(name)
        server.listen(name, _listen(self._ports[name]))

    def pause_broker(self, name: str = "") -> None:
        """Make a broker answer nothing (default: the first); connections stay."""
        self._running().pause(self._name(name))

    def resume_broker(self, name: str = "") -> None:
        """Let a paused broker go on."""
        self._running().resume(self._name(name))

    def jump_clock(self, seconds: float) -> None:
        """Move the cluster's wall clock forward, or back (negative), from now on.

        As at a real broker, nothing is corrected: everything that runs by that clock (lock leases,
            delayed messages, long polls, silent members, store times) ends earlier or later than it
            should. Only delayed messages differ: after a jump back, a real broker delivers them at
            once if more than their delay would be left.
        """
        check_number("seconds", seconds, -_LONGEST_JUMP, _LONGEST_JUMP)
        self._running().jump_clock(seconds)

    def _name(self, name: str) -> str:
        check_text("name", name)
        if name and name not in self.brokers:
            raise ConfigError(f"there is no broker {name!r}; there are: {self.brokers}")
        return name or self.broker_name

    def _address(self, server: str) -> str:
        if server not in self._ports:
            raise LifecycleError("the fake broker is not started")
        return f"127.0.0.1:{self._ports[server]}"

    def _running(self) -> FakeServer:
        if self._server is None:
            raise LifecycleError("the fake broker is not started")
        return self._server


def _listen(port: int) -> socket.socket:
    try:
        return listening_socket(port)
    except OSError as error:
        raise EmbeddedBrokerError(
            f"the fake broker cannot listen on 127.0.0.1:{port} ({error}); choose another port,"
            " or 0 for a free one"
        ) from error
