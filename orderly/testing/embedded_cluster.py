"""A real RocketMQ cluster on this machine: a name server, masters and their slaves as JVMs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self

from orderly.client import Client
from orderly.config.arguments import check_named_texts, check_text, check_texts
from orderly.config.numbers import check_count, check_seconds
from orderly.errors import ConfigError, EmbeddedBrokerError, LifecycleError, OrderlyError
from orderly.protocol.codes import RequestCode
from orderly.protocol.command import request
from orderly.protocol.json_values import load_object, object_in
from orderly.testing import settings
from orderly.testing.ports import free_port
from orderly.testing.readiness import Started, wait_ready
from orderly.testing.site import Server, Site

_POLL = 0.1


class ClusterBroker:
    """A master or a slave of an `EmbeddedCluster`. One thread at a time.

    Attributes:
        name, broker_id: as clients see it; id 0 is the master.
        address: "127.0.0.1:port", where it listens.
    """

    def __init__(self, site: Site, server: Server, started: Started) -> None:
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

    def restart(self) -> None:
        """End it if it runs and start it again: same port, same data, no locks.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        self._server.restart()
        self.wait_ready()

    def pause(self) -> None:
        """Stop its process where it is (SIGSTOP): connections stay, nothing answers."""
        self._server.pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._server.resume()

    def wait_ready(self) -> None:
        """Wait until it is registered and answers; raises BrokerStartFailed."""
        wait_ready(self._started, self._problem, self._site.report)

    def _problem(self) -> str | None:
        return None if self.alive else f"{self._server.name} ended at its start"


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
    ) -> None:
        check_texts("masters", masters)
        check_texts("slaves, names of masters,", slaves)
        _check(masters, slaves)
        check_named_texts("broker_properties", broker_properties)
        check_named_texts("namesrv_properties", namesrv_properties)
        self._masters, self._slaves = tuple(masters), tuple(slaves)
        self._extra = dict(broker_properties or {})
        self._own = dict(namesrv_properties or {})
        self._site = Site(directory, java_options)
        self._namesrv_port = 0
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
            ConfigError: there is none.
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
        self._site.add("the name server", settings.NAME_SERVER, own, home)
        self._add_all((name, 0) for name in self._masters)
        # Later: a slave is told its master's address when it registers.
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
        started = Started(self.namesrv, name, address, permission, broker_id=broker_id)
        return ClusterBroker(self._site, server, started)


def _check(masters: Sequence[str], slaves: Sequence[str]) -> None:
    if not masters:
        raise ConfigError("masters and slaves are lists of broker names, with a master at least")
    unknown = sorted(set(slaves) - set(masters))
    if len(set(masters)) != len(masters) or unknown:
        raise ConfigError(
            f"each master {list(masters)} needs a name of its own, and each slave a master of"
            f" those (unknown: {unknown})"
        )


def _log_end(client: Client, address: str) -> int:
    """How many bytes a broker's message log has, deleted ones included."""
    reply = client.connections.get(address).call(request(RequestCode.GET_BROKER_RUNTIME_INFO), 2.0)
    return int(object_in(load_object(reply.body), "table")["commitLogMaxOffset"])
