"""The container engine, through testcontainers: its errors become ours, each with an advice."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from orderly.errors import EmbeddedBrokerError
from orderly.testing.readiness import BrokerStartFailed

_GONE = "the container engine no longer answers ({}): start it again"


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
            "a broker in a container needs an extra: pip install 'rocketmq-orderly[testing]'"
        ) from error
    with _told("no container engine answers ({}): start Docker, or set DOCKER_HOST"):
        return DockerContainer(image)


def pull_if_missing(container: Any, progress: Callable[[str], None]) -> None:
    """Pull the container's image unless the engine has it.

    Raises:
        ContainerUnavailable: it cannot be pulled.
    """
    from docker.errors import ImageNotFound  # noqa: PLC0415 - comes with testcontainers

    images = container.get_docker_client().client.images
    advice = "name one that is here in ORDERLY_ROCKETMQ_IMAGE, or build one: docker/README.md"
    with _told(f"the image {container.image} cannot be pulled ({{}}): {advice}"):
        try:
            images.get(container.image)
        except ImageNotFound:
            progress(f"pulling {container.image} (once; some hundred megabytes)")
            images.pull(container.image)


def start(container: Any) -> None:
    """Create the container and start it.

    Raises:
        ContainerUnavailable: testcontainers' own helper, Ryuk, cannot be started.
        BrokerStartFailed: the engine refused, for example because a port is taken.
    """
    try:
        with _told(f"the container engine did not start {container.image}: {{}}"):
            container.start()
    except ContainerUnavailable as error:
        for sign, kind, advice in _ADVICE:
            if sign in str(error):
                raise kind(f"{error}{advice}") from error.__cause__


def ended(container: Any) -> str:
    """Say why a started container does not run, "" if it does.

    Raises:
        ContainerUnavailable: the engine no longer answers.
    """
    from docker.errors import NotFound  # noqa: PLC0415 - comes with testcontainers

    with _told(_GONE):
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

    with _told(_GONE), contextlib.suppress(NotFound):
        log: bytes = container.get_wrapped_container().logs(tail=lines)
        return log.decode(errors="replace")
    return ""


def run(container: Any, script: str) -> int:
    """Run a shell script in a started container; returns its exit code.

    Raises:
        ContainerUnavailable: the engine no longer answers, or cannot run it.
    """
    with _told(_GONE):
        return int(container.exec(["sh", "-c", script]).exit_code)


def remove(container: Any) -> None:
    """Remove a container with its data, running or not; nothing to do if it is gone already.

    Raises:
        ContainerUnavailable: the engine no longer answers; the text says what is left.
    """
    from docker.errors import NotFound  # noqa: PLC0415 - comes with testcontainers

    left = _left_behind(container)
    client = container.get_docker_client().client
    with contextlib.closing(client), _told(f"{_GONE}{left}"), contextlib.suppress(NotFound):
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
def _told(text: str) -> Iterator[None]:
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
