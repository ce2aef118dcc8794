"""A real RocketMQ name server and broker in one container, through testcontainers."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any, Self

from orderly.config.arguments import check_named_texts, check_text
from orderly.config.functions import check_arguments, check_function
from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.testing import engine, settings
from orderly.testing.ports import free_port, on_free_ports
from orderly.testing.readiness import Started, wait_ready

IMAGE = "apache/rocketmq:5.5.0"
_NAMESRV_PORT = 9876  # in the container: what a name server listens at, unless told otherwise
_LOOPBACK = "127.0.0.1"
_EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - of the container, or of an engine elsewhere
_DEATH_TIMEOUT = 20.0  # seconds from a signal to the end of the broker
_POLL = 0.1
_LOG_LINES = 30

# Runs in the container; [S] keeps it from finding itself. The scripts around the JVM match too:
# they have to end with it, and stopping them for a while does no harm.
_SIGNAL = """\
code=1
for process in /proc/[0-9]*; do
    grep -qa 'broker.Broker[S]tartup' "$process/cmdline" 2>/dev/null || continue
    kill -{signal} "${{process#/proc/}}" && code=0
done
exit $code
"""


class RocketMQContainer:
    """RocketMQ 5.5.0 in a container, for tests.

    Clients connect to the address that a broker registers at its name server. So it is told the
    engine's host, and a port chosen beforehand that is the same inside and outside. Where the
    engine is local, the ports are open on 127.0.0.1 only. One thread at a time.

        with RocketMQContainer() as broker:
            producer = OrderlyProducer(namesrv=broker.namesrv)

    Args:
        image: default: the variable ORDERLY_ROCKETMQ_IMAGE, else the public image. Any that has
            $ROCKETMQ_HOME/bin with `mqnamesrv` and `mqbroker`.
        broker_name: the broker's name.
        broker_properties: settings of the broker that win over ours.
        progress: told what is going on, for example "pulling apache/rocketmq:5.5.0 …".

    Raises:
        ConfigError: an argument of another kind.
    """

    def __init__(
        self,
        image: str = "",
        *,
        broker_name: str = "broker-a",
        broker_properties: Mapping[str, str] | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        check_text("image", image)
        check_text("broker_name", broker_name, empty=False)
        check_named_texts("broker_properties", broker_properties)
        if progress is not None:
            check_function("progress", progress)
            check_arguments("progress", progress, "text")
        self.image = image or os.environ.get("ORDERLY_ROCKETMQ_IMAGE") or IMAGE
        self.broker_name = broker_name
        self._extra = dict(broker_properties or {})
        self._progress = progress or (lambda _: None)
        self._host = _LOOPBACK
        self._ports = (0, 0)
        self._container: Any = None

    @property
    def namesrv(self) -> str:
        """The name server's address, "host:port"."""
        return f"{self._host}:{self._ports[0]}"

    @property
    def broker_address(self) -> str:
        """The broker's address, "host:port"."""
        return f"{self._host}:{self._ports[1]}"

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> Self:
        """Pull the image if it is missing, start the container, wait until both servers answer.

        Raises:
            ContainerUnavailable: no engine, or no image.
            BrokerStartFailed: they did not answer within 90 s of the container's start; the text
                has the end of its log. Nothing is left running.
            LifecycleError: it runs.
        """
        if self._container is not None:
            raise LifecycleError("the container runs already")
        on_free_ports(self._start, self.stop, ours=True)
        return self

    def stop(self) -> None:
        """Remove the container and its data. Idempotent.

        Raises:
            ContainerUnavailable: the engine no longer answers; the text says what is left.
        """
        atexit.unregister(self.stop)
        container, self._container = self._container, None
        if container is not None:
            engine.remove(container)

    def ended(self) -> str:
        """Say why it ended although nobody stopped it, with the end of its log; "" if it did not.

        A broker that `kill_broker` ended is no end of the container.

        Raises:
            ContainerUnavailable: the engine no longer answers.
        """
        if self._container is None:
            return ""
        why = engine.ended(self._container)
        return why and f"{why}: {self.image}\n{engine.log_end(self._container, _LOG_LINES)}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    # --- faults --------------------------------------------------------------------------------

    def kill_broker(self) -> None:
        """End the broker with SIGKILL; the name server goes on."""
        self._end_broker("KILL")

    def restart_broker(self) -> None:
        """End the broker if it runs and start it again: same port, same data, no locks.

        Raises:
            BrokerStartFailed: it did not come up.
        """
        self._end_broker("TERM")
        self._run("rm /tmp/killed")
        self._wait_ready()

    def pause_broker(self) -> None:
        """Stop the broker's process where it is (SIGSTOP): connections stay, nothing answers."""
        self._signal("STOP")

    def resume_broker(self) -> None:
        """Let a paused broker go on."""
        self._signal("CONT")

    def _end_broker(self, signal: str) -> None:
        self._run("touch /tmp/killed")  # or its end would be the container's
        self._signal(signal)
        self._signal("CONT")  # a paused one would not notice before it goes on
        deadline = time.monotonic() + _DEATH_TIMEOUT
        while self._signal("0"):
            if time.monotonic() > deadline:
                raise EmbeddedBrokerError(f"the broker did not end within {_DEATH_TIMEOUT:g} s")
            time.sleep(_POLL)

    def _signal(self, signal: str) -> bool:
        """Send the broker a signal; returns whether there was a process to send it to."""
        return self._run(_SIGNAL.format(signal=signal)) == 0

    def _run(self, script: str) -> int:
        if self._container is None:
            raise LifecycleError("the container is not started")
        if why := self.ended():
            raise EmbeddedBrokerError(why)
        return engine.run(self._container, script)

    # --- steps of the start --------------------------------------------------------------------

    def _start(self) -> None:
        self._container = engine.new_container(self.image)
        atexit.register(self.stop)
        engine.pull_if_missing(self._container, self._progress)
        host = self._container.get_docker_client().host()
        self._host = _LOOPBACK if host == "localhost" else host
        self._ports = (free_port(), free_port())
        self._configure()
        self._progress(f"starting {self.image}")
        engine.start(self._container)
        self._wait_ready()

    def _configure(self) -> None:
        # testcontainers' own with_bind_ports would open them on every interface.
        interface = _LOOPBACK if self._host == _LOOPBACK else _EVERY_INTERFACE
        inside = (_NAMESRV_PORT, self._ports[1])
        for port, outside in zip(inside, self._ports, strict=True):
            self._container.ports[f"{port}/tcp"] = (interface, outside)
        script = resources.files("orderly.testing").joinpath("container_start.sh").read_bytes()
        self._container.with_copy_into_container(script, "/start.sh")
        self._container.with_copy_into_container(self._broker_conf().encode(), "/broker.conf")
        self._container.with_envs(
            NAMESRV_OPTIONS=" ".join(settings.java_flags_for_image(settings.NAME_SERVER)),
            BROKER_OPTIONS=" ".join(settings.java_flags_for_image(settings.BROKER)),
        )
        self._container.with_command(["sh", "/start.sh"])

    def _broker_conf(self) -> str:
        reached_at = {
            "bindAddress": _EVERY_INTERFACE,
            "brokerIP1": self._host,
            "brokerIP2": self._host,
        }
        return settings.as_text(
            settings.broker_properties(
                PurePosixPath("/tmp"),  # noqa: S108 - of the container: any user may write there
                self.broker_name,
                self._ports[1],
                f"{_LOOPBACK}:{_NAMESRV_PORT}",
                reached_at | self._extra,
            )
        )

    def _wait_ready(self) -> None:
        permission = self._extra.get("brokerPermission", "6")
        started = Started(self.namesrv, self.broker_name, self.broker_address, permission)
        wait_ready(started, self._problem, self._report)

    def _problem(self) -> str | None:
        return engine.ended(self._container) or None

    def _report(self, what: str) -> str:
        if not engine.ended(self._container):
            what += (
                f" (clients look for it at {self._host}; if its ports appear elsewhere,"
                " set TESTCONTAINERS_HOST_OVERRIDE)"
            )
        log = engine.log_end(self._container, _LOG_LINES)
        return f"RocketMQ in {self.image} did not start: {what}\n{log}".rstrip()
