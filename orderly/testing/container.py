"""A real RocketMQ name server and broker in one container, through testcontainers."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import PurePosixPath
from typing import Any, Self

from orderly.config.arguments import check_arguments, check_function, check_named_texts, check_text
from orderly.errors import EmbeddedBrokerError, LifecycleError
from orderly.extras import install
from orderly.testing import settings
from orderly.testing.ports import free_port, on_free_ports
from orderly.testing.readiness import BrokerStartFailed, StartedBroker, wait_ready

# --- the container engine: its errors become ours, each with an advice ----------------------------


_ENGINE_GONE = "the container engine no longer answers ({}): start it again"


class ContainerUnavailable(EmbeddedBrokerError):
    """No testcontainers, no container engine (any more), or no image."""


# What an engine says when it refuses a start, the first that fits: our error, and an advice.
_NO_RYUK = """\
; to do without Ryuk, which removes what killed tests leave behind, set \
TESTCONTAINERS_RYUK_DISABLED=true"""
_NO_SHELL = "; the image has no shell: choose another (ORDERLY_ROCKETMQ_IMAGE)"
_ADVICE: tuple[tuple[str, type[EmbeddedBrokerError], str], ...] = (
    ("ryuk", ContainerUnavailable, _NO_RYUK),
    ('"sh": executable file not found', BrokerStartFailed, _NO_SHELL),
    ("", BrokerStartFailed, ""),
)


def new_container(image: str) -> Any:
    """Return a testcontainers `DockerContainer` of `image`; nothing is started.

    Raises:
        ContainerUnavailable: testcontainers is missing, or no engine answers.
    """
    try:
        from testcontainers.core.container import (  # noqa: PLC0415 - optional: extra `testing`
            DockerContainer,
        )
    except ImportError as error:
        raise ContainerUnavailable(
            f"a broker in a container needs an extra: {install('testing')}"
        ) from error
    with _as_unavailable("no container engine answers ({}): start Docker, or set DOCKER_HOST"):
        return DockerContainer(image)


def pull_if_missing(container: Any, progress: Callable[[str], None]) -> None:
    """Pull the container's image unless the engine has it.

    Raises:
        ContainerUnavailable: it cannot be pulled.
    """
    from docker.errors import ImageNotFound  # noqa: PLC0415 - comes with testcontainers

    images = container.get_docker_client().client.images
    advice = "name one that is here in ORDERLY_ROCKETMQ_IMAGE, or build one: docker/README.md"
    with _as_unavailable(f"the image {container.image} cannot be pulled ({{}}): {advice}"):
        try:
            images.get(container.image)
        except ImageNotFound:
            progress(f"pulling {container.image} (once; some hundred megabytes)")
            images.pull(container.image)


def start_container(container: Any) -> None:
    """Create the container and start it.

    Raises:
        ContainerUnavailable: testcontainers' own helper, Ryuk, cannot be started.
        BrokerStartFailed: the engine refused, for example because a port is taken.
    """
    try:
        with _as_unavailable(f"the container engine did not start {container.image}: {{}}"):
            container.start()
    except ContainerUnavailable as error:
        for sign, kind, advice in _ADVICE:
            if sign in str(error):
                raise kind(f"{error}{advice}") from error.__cause__


def why_ended(container: Any) -> str:
    """Say why a started container does not run, "" if it does.

    Raises:
        ContainerUnavailable: the engine no longer answers.
    """
    from docker.errors import NotFound  # noqa: PLC0415 - comes with testcontainers

    with _as_unavailable(_ENGINE_GONE):
        try:
            container.reload()
        except NotFound:
            return "the container was removed by somebody else"
    if container.status not in ("exited", "dead"):
        return ""
    state = container.get_wrapped_container().attrs["State"]
    memory = ", out of memory" if state.get("OOMKilled") else ""
    return f"the container ended (exit code {state.get('ExitCode')}{memory})"


def log_end(container: Any, lines: int) -> str:
    """Return the last lines that a started container wrote; "" if it was removed.

    Raises:
        ContainerUnavailable: the engine no longer answers.
    """
    from docker.errors import NotFound  # noqa: PLC0415 - comes with testcontainers

    with _as_unavailable(_ENGINE_GONE), contextlib.suppress(NotFound):
        log: bytes = container.get_wrapped_container().logs(tail=lines)
        return log.decode(errors="replace")
    return ""


def run_script(container: Any, script: str) -> int:
    """Run a shell script in a started container; returns its exit code.

    Raises:
        ContainerUnavailable: the engine no longer answers, or cannot run it.
    """
    with _as_unavailable(_ENGINE_GONE):
        return int(container.exec(["sh", "-c", script]).exit_code)


def remove_container(container: Any) -> None:
    """Remove a container with its data, running or not; nothing to do if it is gone already.

    Raises:
        ContainerUnavailable: the engine no longer answers; the text says what is left.
    """
    from docker.errors import NotFound  # noqa: PLC0415 - comes with testcontainers

    left = _left_behind(container)
    client = container.get_docker_client().client
    with (
        contextlib.closing(client),
        _as_unavailable(f"{_ENGINE_GONE}{left}"),
        contextlib.suppress(NotFound),
    ):
        container.stop()


def _left_behind(container: Any) -> str:
    """What to do about a container that cannot be removed."""
    from testcontainers.core.exceptions import (  # noqa: PLC0415 - optional: extra `testing`
        ContainerStartException,
    )

    try:
        name = container.get_wrapped_container().name
    except ContainerStartException:  # the engine never made it
        return ""
    return f", and remove what it may have kept: docker rm --force --volumes {name}"


@contextlib.contextmanager
def _as_unavailable(text: str) -> Iterator[None]:
    """Raise ContainerUnavailable for what the engine says, or its silence; {} in `text` is that."""
    from docker.errors import DockerException  # noqa: PLC0415 - comes with testcontainers

    try:
        yield
    # Errors of requests are OSErrors, those of testcontainers (of its Ryuk) RuntimeErrors.
    except (DockerException, OSError, RuntimeError, ValueError) as error:
        _drop_sockets(error)
        # Not str.format: the text may hold an image's name with braces of its own.
        raise ContainerUnavailable(text.replace("{}", str(error))) from error


def _drop_sockets(error: BaseException | None) -> None:
    """End, without the warning, the socket that docker-py forgets when it cannot connect it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__


# --- the broker -----------------------------------------------------------------------------------


IMAGE = "apache/rocketmq:5.5.0"
_NAMESRV_PORT = 9876  # in the container: what a name server listens at, by default
_LOOPBACK = "127.0.0.1"
_EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - of the container, or of an engine elsewhere
_SIGNAL_TIMEOUT = 60.0  # seconds from a signal to the end of the broker: about 10 if idle
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

# Whether a thread of the broker still runs: SIGSTOP goes to one of them, and the others stop only
# when a busy machine has run that one.
_RUNS = """\
for process in /proc/[0-9]*; do
    grep -qa 'broker.Broker[S]tartup' "$process/cmdline" 2>/dev/null || continue
    grep -qs '^State:[[:space:]]*[RSD]' "$process"/task/*/status && exit 0
done
exit 1
"""


class RocketMQContainer:
    """RocketMQ 5.5.0 in a container, for tests.

    Clients connect to the address that a broker registers at its name server. So the broker
    registers the engine's host, with a port that is chosen beforehand and is the same inside and
    outside. If the engine is local, the ports are open on 127.0.0.1 only. One thread at a time.

        with RocketMQContainer() as broker:
            producer = OrderlyProducer(namesrv=broker.namesrv)

    Args:
        image: any image that has $ROCKETMQ_HOME/bin with `mqnamesrv` and `mqbroker`. Default: the
            variable ORDERLY_ROCKETMQ_IMAGE, else the public image.
        broker_name: the broker's name.
        broker_properties: settings of the broker that win over ours.
        progress: called with texts such as "pulling apache/rocketmq:5.5.0 …".

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
            raise LifecycleError("the container is already running")
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
            remove_container(container)

    def ended(self) -> str:
        """Say why the container ended without `stop`, with the end of its log; "" if it runs.

        A broker that `kill_broker` ended does not count as the end of the container.

        Raises:
            ContainerUnavailable: the engine no longer answers.
        """
        if self._container is None:
            return ""
        why = why_ended(self._container)
        return why and f"{why}: {self.image}\n{log_end(self._container, _LOG_LINES)}"

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
        """Stop the broker's process where it is (SIGSTOP): connections stay, nothing answers.

        No thread of it runs when this returns.

        Raises:
            EmbeddedBrokerError: some threads still run after 60 s.
        """
        self._signal("STOP")
        self._await_none(lambda: self._run(_RUNS) == 0, "stop")

    def resume_broker(self) -> None:
        """Let a paused broker go on."""
        self._signal("CONT")

    def _end_broker(self, signal: str) -> None:
        self._run("touch /tmp/killed")  # or its end would be the container's
        self._signal(signal)
        self._signal("CONT")  # a paused one would not notice before it goes on
        self._await_none(lambda: self._signal("0"), "end")

    @staticmethod
    def _await_none(some: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _SIGNAL_TIMEOUT
        while some():
            if time.monotonic() > deadline:
                raise EmbeddedBrokerError(
                    f"the broker did not {what} within {_SIGNAL_TIMEOUT:g} s of the signal;"
                    " is the machine overloaded?"
                )
            time.sleep(_POLL)

    def _signal(self, signal: str) -> bool:
        """Send the broker a signal; returns whether there was a process to send it to."""
        return self._run(_SIGNAL.format(signal=signal)) == 0

    def _run(self, script: str) -> int:
        if self._container is None:
            raise LifecycleError("the container is not started")
        if why := self.ended():
            raise EmbeddedBrokerError(why)
        return run_script(self._container, script)

    # --- steps of the start --------------------------------------------------------------------

    def _start(self) -> None:
        self._container = new_container(self.image)
        atexit.register(self.stop)
        pull_if_missing(self._container, self._progress)
        host = self._container.get_docker_client().host()
        self._host = _LOOPBACK if host == "localhost" else host
        self._ports = (free_port(), free_port())
        self._configure()
        self._progress(f"starting {self.image}")
        start_container(self._container)
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
        started = StartedBroker(self.namesrv, self.broker_name, self.broker_address, permission)
        wait_ready(started, self._problem, self._report)

    def _problem(self) -> str | None:
        return why_ended(self._container) or None

    def _report(self, what: str) -> str:
        if not why_ended(self._container):
            what += (
                f" (clients look for it at {self._host}; if its ports appear elsewhere,"
                " set TESTCONTAINERS_HOST_OVERRIDE)"
            )
        log = log_end(self._container, _LOG_LINES)
        return f"RocketMQ in {self.image} did not start: {what}\n{log}".rstrip()
