"""A real RocketMQ name server and broker as two local JVM processes on free loopback ports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from orderly.config.arguments import check_named_texts, check_text
from orderly.config.numbers import check_port
from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.testing import settings
from orderly.testing.jars import Progress
from orderly.testing.ports import free_port, is_free
from orderly.testing.readiness import Started, wait_ready
from orderly.testing.site import Server, Site


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
        java_options: further options of both JVMs; to have TLS,
            `-Dtls.server.mode=permissive` and what else Java's servers ask for.
        client_settings: fields of ClientConfig that a client needs here: keys, TLS.
        progress: told of the download, see `jars.Progress`.

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
        self._site = Site(directory, java_options, progress)
        self._broker: Server | None = None

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

        A clean shutdown takes about 10 s; where the directory goes too, they are killed at once.
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
        """Stop the broker's process where it is (SIGSTOP): connections stay, nothing answers."""
        self._running_broker().pause()

    def resume_broker(self) -> None:
        """Let a paused broker go on."""
        self._running_broker().resume()

    # --- steps of the start --------------------------------------------------------------------

    def _build(self) -> None:
        self._ports = (
            _port("name server", self._wanted[0]),
            _port("broker", self._wanted[1], -2, 1),
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
        started = Started(
            self.namesrv,
            self.broker_name,
            self.broker_address,
            permission,
            self._client_settings,
        )
        wait_ready(started, self._site.problem, self._site.report)

    def _running_broker(self) -> Server:
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
