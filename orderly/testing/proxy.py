"""RocketMQ's proxy on this machine, as a JVM process beside an embedded broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from orderly.client import Client
from orderly.config import ClientConfig
from orderly.config.arguments import check_named_texts, check_port, check_text
from orderly.errors import LifecycleError
from orderly.testing import settings
from orderly.testing.jars import Progress
from orderly.testing.ports import usable_port
from orderly.testing.readiness import START_TIMEOUT, BrokerStartFailed
from orderly.testing.site import LocalServer, Site

_POLL = 0.1


class EmbeddedProxy:
    """RocketMQ 5.5.0's proxy in cluster mode on this machine, for tests and trials.

    Its remoting port listens on 127.0.0.1 only, and there is no gRPC port. It ends with this
    process, however that ends. One thread at a time.

        with EmbeddedBroker() as broker, EmbeddedProxy(broker.namesrv) as proxy:
            producer = OrderlyProducer(namesrv=proxy.address)

    Args:
        namesrv: "host:port" of the name server behind it.
        port: of its remoting port; 0 picks a free one.
        directory: where settings and logs go, kept afterwards; default: a temporary one, removed
            at the end.
        properties: settings of the proxy that win over ours, e.g.
            {"enableTopicMessageTypeCheck": "false"}.
        java_options: further options of the JVM.
        progress: called during the download, see `jars.Progress`.

    Raises:
        ConfigError: an argument of another kind.
    """

    def __init__(
        self,
        namesrv: str,
        *,
        port: int = 0,
        directory: Path | None = None,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
        progress: Progress | None = None,
    ) -> None:
        check_text("namesrv", namesrv, empty=False)
        check_port("port", port)
        check_named_texts("properties", properties)
        self._namesrv = ClientConfig(namesrv=namesrv).namesrv
        self._wanted = self._port = port
        self._extra = dict(properties or {})
        self._site = Site(directory, java_options, progress, proxy=True)
        self._server: LocalServer | None = None

    @property
    def address(self) -> str:
        """What clients name as their name server, "127.0.0.1:port"."""
        return f"127.0.0.1:{self._port}"

    @property
    def alive(self) -> bool:
        """Whether its process runs (or is paused)."""
        return self._running().process.alive

    @property
    def pid(self) -> int:
        """The process id."""
        return self._running().process.pid

    def start(self) -> Self:
        """Download what is missing, start it and wait until it answers.

        Raises:
            EmbeddedBrokerError: no Java, no jars, a port taken, or it did not come up; nothing is
                left running.
            LifecycleError: it runs.
        """
        self._site.start(self._build, ours=self._wanted == 0)
        return self

    def stop(self) -> None:
        """End it and wait until it is gone. Idempotent."""
        self._site.stop()
        self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- faults --------------------------------------------------------------------------------

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._running().process.kill()

    def restart(self) -> None:
        """End it if it runs and start it again at the same port.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        self._running().restart()
        self._wait_ready()

    def pause(self) -> None:
        """Stop its process where it is (SIGSTOP): connections stay, nothing answers."""
        self._running().pause()

    def resume(self) -> None:
        """Let it go on after `pause`."""
        self._running().resume()

    # --- steps of the start --------------------------------------------------------------------

    def _build(self) -> None:
        self._port = usable_port("proxy", self._wanted)
        own = settings.proxy_properties(self._port, self._namesrv, self._extra)
        self._server = self._site.add("proxy", settings.PROXY, own)
        self._wait_ready()

    def _wait_ready(self) -> None:
        config = ClientConfig(namesrv=self.address, connect_timeout=1.0, request_timeout=5.0)
        deadline = time.monotonic() + START_TIMEOUT
        with contextlib.closing(Client(config)) as client:
            while not client.name_servers.is_proxy(self.address):
                why = self._site.problem()
                if why is None and time.monotonic() > deadline:
                    why = f"not ready after {START_TIMEOUT:g} s"
                if why is not None:
                    raise BrokerStartFailed(self._site.report(why))
                time.sleep(_POLL)

    def _running(self) -> LocalServer:
        if self._server is None:
            raise LifecycleError("the embedded proxy is not started")
        return self._server
