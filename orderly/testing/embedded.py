"""A real RocketMQ name server and broker as two local JVM processes on free loopback ports."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, TextIO

from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.file_lock import hold
from orderly.testing import settings
from orderly.testing.jars import Progress, fetch_jars
from orderly.testing.java import find_java
from orderly.testing.ports import free_port, is_free, on_free_ports
from orderly.testing.readiness import Started, wait_ready
from orderly.testing.server import ServerProcess


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
        java_options: further options of both JVMs.
        progress: told of the download, see `jars.Progress`.
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
        progress: Progress | None = None,
    ) -> None:
        self.broker_name = broker_name
        self._keep = directory is not None
        self._directory = directory
        self._wanted = (namesrv_port, broker_port)
        self._ports = self._wanted
        self._extra = dict(broker_properties or {})
        self._java_options = tuple(java_options)
        self._progress = progress
        self._name_server: ServerProcess | None = None
        self._broker: ServerProcess | None = None
        self._commands: dict[str, list[str]] = {}
        self._lock: TextIO | None = None

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
        if self._directory is None:
            raise LifecycleError("the embedded broker is not started")
        return self._directory

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running JVMs: name server, broker."""
        return tuple(p.pid for p in (self._name_server, self._broker) if p and p.alive)

    @property
    def broker_pid(self) -> int:
        """The broker's process id."""
        return self._running_broker().pid

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Download what is missing, start both servers and wait until they answer.

        Raises:
            EmbeddedBrokerError: no Java, no jars, a port taken, or a server that did not come up;
                nothing is left running.
            LifecycleError: it runs.
        """
        if self._name_server is not None:
            raise LifecycleError("the embedded broker runs already")
        java = find_java()
        jars = fetch_jars(progress=self._progress)
        atexit.register(self.stop)
        on_free_ports(lambda: self._start(java, jars), self.stop, ours=0 in self._wanted)
        return self

    def _start(self, java: Path, jars: Sequence[Path]) -> None:
        self._prepare(java, jars)
        self._name_server = self._launch("namesrv")
        self._broker = self._launch("broker")
        self._wait_ready()

    def stop(self) -> None:
        """End both servers and wait until they are gone. Idempotent.

        A clean shutdown takes about 10 s; where the directory goes too, they are killed at once.
        """
        atexit.unregister(self.stop)
        servers = [s for s in (self._broker, self._name_server) if s is not None]
        for server in servers:
            server.signal(signal.SIGCONT)  # a paused process cannot end
        stopping = [
            threading.Thread(target=server.stop if self._keep else server.kill)
            for server in servers
        ]
        for thread in stopping:
            thread.start()
        for thread in stopping:
            thread.join()
        self._broker = self._name_server = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if not self._keep and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- faults --------------------------------------------------------------------------------

    def kill_broker(self) -> None:
        """End the broker with SIGKILL; the name server goes on."""
        self._running_broker().kill()

    def restart_broker(self) -> None:
        """End the broker if it runs and start it again: same ports, same data, no locks.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        broker = self._running_broker()
        broker.stop()
        self._broker = self._launch("broker")
        self._wait_ready()

    def pause_broker(self) -> None:
        """Stop the broker's process where it is (SIGSTOP): connections stay, nothing answers."""
        self._running_broker().signal(signal.SIGSTOP)

    def resume_broker(self) -> None:
        """Let a paused broker go on."""
        self._running_broker().signal(signal.SIGCONT)

    # --- steps of the start --------------------------------------------------------------------

    def _prepare(self, java: Path, jars: Sequence[Path]) -> None:
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="orderly-broker-"))
        self._directory.mkdir(parents=True, exist_ok=True)
        in_use = f"the directory {self._directory} is in use by another broker; stop that one"
        self._lock = hold(self._directory / "lock", EmbeddedBrokerError(in_use))
        self._ports = (
            _port("name server", self._wanted[0]),
            _port("broker", self._wanted[1], -2, 1),
        )
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (self.directory / "tmp").mkdir(exist_ok=True)
        (conf / "rmq.logback.xml").write_text(settings.LOGBACK)
        properties = {
            "namesrv": settings.name_server_properties(self.directory, self._ports[0]),
            "broker": settings.broker_properties(
                self.directory, self.broker_name, self._ports[1], self.namesrv, self._extra
            ),
        }
        for role, main in (("namesrv", settings.NAME_SERVER), ("broker", settings.BROKER)):
            (conf / f"{role}.conf").write_text(settings.as_text(properties[role]))
            self._commands[role] = settings.java_command(
                java, main, jars, self.directory, self._java_options
            )

    def _launch(self, role: str) -> ServerProcess:
        env = {k: v for k, v in os.environ.items() if k != "JAVA_TOOL_OPTIONS"}
        env |= {"ROCKETMQ_HOME": str(self.directory)}
        name = "name server" if role == "namesrv" else role
        return ServerProcess(name, self._commands[role], self.directory / f"{role}.out", env)

    def _wait_ready(self) -> None:
        permission = self._extra.get("brokerPermission", "6")
        started = Started(self.namesrv, self.broker_name, self.broker_address, permission)
        wait_ready(started, self._problem, self._report)

    def _problem(self) -> str | None:
        for server in (self._name_server, self._broker):
            if server is not None and not server.alive:
                return f"the {server.name} ended at its start"
        return None

    def _report(self, what: str) -> str:
        logs = [
            f"--- {server.log}\n{server.tail()}"
            for server in (self._name_server, self._broker)
            if server is not None
        ]
        return "\n".join([f"the embedded broker did not start: {what}", *logs])

    def _running_broker(self) -> ServerProcess:
        if self._broker is None:
            raise LifecycleError("the embedded broker is not started")
        return self._broker


def _port(name: str, wanted: int, *neighbours: int) -> int:
    if wanted == 0:
        return free_port(*neighbours)
    taken = [wanted + n for n in (0, *neighbours) if not is_free(wanted + n)]
    if taken:
        raise EmbeddedBrokerError(
            f"the {name} cannot listen on port {wanted}: {taken} on 127.0.0.1 is in use;"
            " choose another port, or 0 for a free one"
        )
    return wanted
