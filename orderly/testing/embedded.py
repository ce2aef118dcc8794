"""Real RocketMQ servers on this machine: one broker, or a cluster with slaves, as JVM processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from orderly.client import Client
from orderly.config.arguments import (
    check_count,
    check_given,
    check_named_texts,
    check_port,
    check_seconds,
    check_text,
    check_texts,
)
from orderly.errors import ConfigError, EmbeddedBrokerError, LifecycleError, OrderlyError
from orderly.protocol.body import OBJECT, load_object
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.testing import settings
from orderly.testing.jars import Progress
from orderly.testing.ports import free_port, usable_port
from orderly.testing.readiness import StartedBroker, wait_ready
from orderly.testing.site import LocalServer, Site

# --- one broker -----------------------------------------------------------------------------------


class EmbeddedBroker:
    """RocketMQ 5.5.0 on this machine, for tests and trials.

    Listens on 127.0.0.1 only, fits into 1 GiB of memory, and ends with this process, however that
    ends. The jars (85 MB) are downloaded once per user. One thread at a time.

        with EmbeddedBroker() as broker:
            producer = OrderlyProducer(namesrv=broker.namesrv)

    Args:
        directory: where data and logs go, kept afterwards; default: a temporary one, removed at
            the end.
        broker_name: the broker's name.
        namesrv_port, broker_port: 0 picks free ones. The broker also needs `broker_port` - 2
            and + 1.
        broker_properties: settings of the broker that win over ours, e.g.
            {"autoCreateTopicEnable": "true"}.
        java_options: further options of both JVMs; for TLS, `-Dtls.server.mode=permissive` and the
            other options that Java's servers need.
        client_settings: fields of ClientConfig that a client needs here: keys, TLS.
        progress: called during the download, see `jars.Progress`.
        jars: a file that lists the jars of another RocketMQ release; default: the one that
            ORDERLY_JARS names, else those of 5.5.0.

    Raises:
        ConfigError: an argument of another kind.
    """

    def __init__(
        self,
        *,
        directory: Path | None = None,
        broker_name: str = "broker-a",
        namesrv_port: int = 0,
        broker_port: int = 0,
        broker_properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        client_settings: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
        jars: Path | None = None,
    ) -> None:
        check_text("broker_name", broker_name, empty=False)
        check_port("namesrv_port", namesrv_port)
        check_port("broker_port", broker_port)
        check_named_texts("broker_properties", broker_properties)
        check_named_texts("client_settings", client_settings, texts=False)
        self.broker_name = broker_name
        self._wanted = (namesrv_port, broker_port)
        self._ports = self._wanted
        self._extra = dict(broker_properties or {})
        self._client_settings = dict(client_settings or {})
        self._site = Site(directory, java_options, progress, jars)
        self._broker: LocalServer | None = None

    # --- where it is ---------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The name server's address, "127.0.0.1:port"."""
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def broker_address(self) -> str:
        """The broker's address, "127.0.0.1:port"."""
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def directory(self) -> Path:
        """Where data and logs are."""
        return self._site.directory

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running JVMs: name server, broker."""
        return self._site.pids

    @property
    def broker_pid(self) -> int:
        """The broker's process id."""
        return self._running_broker().process.pid

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Download what is missing, start both servers and wait until they answer.

        Raises:
            EmbeddedBrokerError: no Java, no jars, a port taken, or a server that did not come up;
                nothing is left running.
            LifecycleError: it runs.
        """
        self._site.start(self._build, ours=0 in self._wanted)
        return self

    def stop(self) -> None:
        """End both servers and wait until they are gone. Idempotent.

        A clean shutdown takes about 10 s. If the directory is temporary, they are killed at once.
        """
        self._site.stop()
        self._broker = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- faults --------------------------------------------------------------------------------

    def kill_broker(self) -> None:
        """End the broker with SIGKILL; the name server goes on."""
        self._running_broker().process.kill()

    def restart_broker(self) -> None:
        """End the broker if it runs and start it again: same ports, same data, no locks.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        self._running_broker().restart()
        self._wait_ready()

    def pause_broker(self) -> None:
        """Stop the broker's process where it is (SIGSTOP): connections stay, nothing answers.

        No thread of it runs when this returns.

        Raises:
            EmbeddedBrokerError: some threads still run after 30 s.
        """
        self._running_broker().pause()

    def resume_broker(self) -> None:
        """Let a paused broker go on."""
        self._running_broker().resume()

    # --- steps of the start --------------------------------------------------------------------

    def _build(self) -> None:
        self._ports = (
            usable_port("name server", self._wanted[0]),
            usable_port("broker", self._wanted[1], -2, 1),
        )
        directory, (namesrv_port, broker_port) = self.directory, self._ports
        own = settings.name_server_properties(directory, namesrv_port)
        self._site.add("name server", settings.NAME_SERVER, own)
        brokers = settings.broker_properties(
            directory, self.broker_name, broker_port, self.namesrv, self._extra
        )
        self._broker = self._site.add("broker", settings.BROKER, brokers)
        self._wait_ready()

    def _wait_ready(self) -> None:
        permission = self._extra.get("brokerPermission", "6")
        started = StartedBroker(
            self.namesrv,
            self.broker_name,
            self.broker_address,
            permission,
            self._client_settings,
        )
        wait_ready(started, self._site.problem, self._site.report)

    def _running_broker(self) -> LocalServer:
        if self._broker is None:
            raise LifecycleError("the embedded broker is not started")
        return self._broker


# --- a cluster: a name server, masters and their slaves -------------------------------------------


_POLL = 0.1


class ClusterBroker:
    """A master or a slave of an `EmbeddedCluster`. One thread at a time.

    Attributes:
        name, broker_id: as clients see it; id 0 is the master.
        address: "127.0.0.1:port", where it listens.
    """

    def __init__(self, site: Site, server: LocalServer, started: StartedBroker) -> None:
        self.name, self.broker_id = started.broker_name, started.broker_id
        self.address = started.broker_address
        self._site = site
        self._server = server
        self._started = started

    @property
    def alive(self) -> bool:
        """Whether its process runs (or is paused)."""
        return self._server.process.alive

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._server.process.pid

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._server.process.kill()

    def restart(self, jars: Path | None = None) -> None:
        """End it if it runs and start it again: same port, same data, no locks.

        Args:
            jars: a file that lists other jars, which it runs from now on: an upgrade.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        self._server.restart(jars)
        self.wait_ready()

    def pause(self) -> None:
        """Stop its process where it is (SIGSTOP); as `EmbeddedBroker.pause_broker`."""
        self._server.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._server.resume()

    def wait_ready(self) -> None:
        """Wait until it is registered and answers; raises BrokerStartFailed."""
        wait_ready(self._started, self._server.problem, self._site.report)


class EmbeddedCluster:
    """RocketMQ 5.5.0 with several brokers on this machine, for tests and trials.

    Each server is a JVM of about 300 MiB, listens on 127.0.0.1 and ends with this process, however
    that ends. Slaves copy their master's messages as they come, but its topics and offsets only
    once a minute (BrokerController); until then they refuse pulls. One thread at a time.

        with EmbeddedCluster(slaves=["broker-a"]) as cluster:
            cluster.broker("broker-a").kill()

    Args:
        masters: their names.
        slaves: for each slave the name of its master; the first one of a master gets broker id 1.
        directory: where data and logs go, kept afterwards; default: a temporary one, removed at
            the end.
        broker_properties: settings of all brokers that win over ours.
        namesrv_properties: settings of the name server that win over ours.
        java_options: further options of all JVMs.
        jars: as `EmbeddedBroker`'s.

    Raises:
        ConfigError: no master, a name twice, or a slave of an unknown master.
    """

    def __init__(
        self,
        masters: Sequence[str] = ("broker-a", "broker-b"),
        slaves: Sequence[str] = (),
        *,
        directory: Path | None = None,
        broker_properties: Mapping[str, str] | None = None,
        namesrv_properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        jars: Path | None = None,
    ) -> None:
        check_texts("masters", masters)
        check_texts("slaves, names of masters,", slaves)
        _check_names(masters, slaves)
        check_named_texts("broker_properties", broker_properties)
        check_named_texts("namesrv_properties", namesrv_properties)
        self._masters, self._slaves = tuple(masters), tuple(slaves)
        self._extra = dict(broker_properties or {})
        self._own = dict(namesrv_properties or {})
        self._site = Site(directory, java_options, jars=jars)
        self._namesrv_port = 0
        self._namesrv: LocalServer | None = None
        self._brokers: dict[tuple[str, int], ClusterBroker] = {}

    @property
    def namesrv(self) -> str:
        """The name server's address, "127.0.0.1:port"."""
        return f"127.0.0.1:{self._namesrv_port}"

    @property
    def brokers(self) -> tuple[ClusterBroker, ...]:
        """All masters, then all slaves."""
        return tuple(self._brokers.values())

    @property
    def directory(self) -> Path:
        """Where data and logs are: a folder for each server."""
        return self._site.directory

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running JVMs: name server, masters, slaves."""
        return self._site.pids

    def broker(self, name: str, broker_id: int = 0) -> ClusterBroker:
        """One broker; id 0 is the master.

        Raises:
            ConfigError: no such broker.
            LifecycleError: the cluster does not run.
        """
        check_text("name", name)
        check_count("broker_id", broker_id, 0)
        if not self._site.running:
            raise LifecycleError("the embedded cluster is not started")
        found = self._brokers.get((name, broker_id))
        if found is None:
            known = ", ".join(f"{known_name} {number}" for known_name, number in self._brokers)
            raise ConfigError(f"no broker {name!r} with id {broker_id}; there are: {known}")
        return found

    def restart_namesrv(self, jars: Path | None = None) -> None:
        """End the name server if it runs and start it again; brokers register within 10 s.

        Args:
            jars: as `ClusterBroker.restart`'s.

        Raises:
            BrokerStartFailed: it did not come up, or a broker that is alive did not register.
            LifecycleError: the cluster does not run.
        """
        check_given("jars", jars, Path)
        if self._namesrv is None:
            raise LifecycleError("the embedded cluster is not started")
        self._namesrv.restart(jars)
        for broker in self.brokers:
            if broker.alive:
                broker.wait_ready()

    def start(self) -> Self:
        """Download what is missing, start all servers and wait until they answer.

        Raises:
            EmbeddedBrokerError: no Java, no jars, or a server that did not come up; nothing is
                left running.
            LifecycleError: it runs.
        """
        self._site.start(self._build, ours=True)
        return self

    def stop(self) -> None:
        """End all servers and wait until they are gone; as `EmbeddedBroker.stop`. Idempotent."""
        self._site.stop()
        self._namesrv = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def wait_replicated(self, timeout: float = 30.0) -> None:
        """Wait until each live slave has all messages of its master, if that one lives.

        Raises:
            EmbeddedBrokerError: not within `timeout` seconds.
        """
        check_seconds("timeout", timeout)
        deadline = time.monotonic() + timeout
        with Client(namesrv=self.namesrv) as client:
            while behind := self._behind(client):
                if time.monotonic() > deadline:
                    raise EmbeddedBrokerError(f"{behind}: not replicated within {timeout:g} s")
                time.sleep(_POLL)

    def _behind(self, client: Client) -> str:
        """Say which slave lacks messages, or nothing."""
        for slave in self.brokers:
            master = self.broker(slave.name)
            if slave is master or not (slave.alive and master.alive):
                continue
            try:
                ends = [_log_end(client, broker.address) for broker in (master, slave)]
            except OrderlyError as error:
                return str(error)
            if ends[0] != ends[1]:
                return f"slave {slave.broker_id} of {slave.name} has {ends[1]} of {ends[0]} bytes"
        return ""

    def _build(self) -> None:
        self._brokers.clear()
        self._namesrv_port = free_port()
        home = self.directory / "namesrv"
        own = settings.name_server_properties(home, self._namesrv_port) | self._own
        self._namesrv = self._site.add("name server", settings.NAME_SERVER, own, home)
        self._add_all((name, 0) for name in self._masters)
        # Later: a slave gets its master's address when it registers.
        slaves = Counter(self._slaves).items()
        self._add_all((name, 1 + n) for name, count in slaves for n in range(count))

    def _add_all(self, wanted: Iterable[tuple[str, int]]) -> None:
        added = {key: self._add(*key) for key in wanted}
        self._brokers |= added
        for broker in added.values():
            broker.wait_ready()

    def _add(self, name: str, broker_id: int) -> ClusterBroker:
        port = free_port(-2, 1)
        home = self.directory / f"{name}-{broker_id}"
        role = {"brokerId": str(broker_id)}
        if broker_id:
            role["brokerRole"] = "SLAVE"
        own = settings.broker_properties(home, name, port, self.namesrv, self._extra | role)
        called = f"slave {broker_id} of {name}" if broker_id else f"broker {name}"
        server = self._site.add(called, settings.BROKER, own, home)
        permission = self._extra.get("brokerPermission", "6")
        address = f"127.0.0.1:{port}"
        started = StartedBroker(self.namesrv, name, address, permission, broker_id=broker_id)
        return ClusterBroker(self._site, server, started)


def _check_names(masters: Sequence[str], slaves: Sequence[str]) -> None:
    if not masters:
        raise ConfigError("masters and slaves are lists of broker names, with at least one master")
    unknown = sorted(set(slaves) - set(masters))
    if len(set(masters)) != len(masters) or unknown:
        raise ConfigError(
            f"each master {list(masters)} needs its own name, and each slave must name one of"
            f" these masters (unknown: {unknown})"
        )


def _log_end(client: Client, address: str) -> int:
    """How many bytes a broker's message log has, deleted ones included."""
    reply = client.connections.get(address).call(request(RequestCode.GET_BROKER_RUNTIME_INFO), 2.0)
    return int(OBJECT.at(load_object(reply.body), "table")["commitLogMaxOffset"])
