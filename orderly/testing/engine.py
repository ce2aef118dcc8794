"""The container engine, through testcontainers: its errors become ours, each with an advice."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from orderly.errors import EmbeddedBrokerError
from orderly.testing.readiness import BrokerStartFailed


class ContainerUnavailable(EmbeddedBrokerError):
    """No testcontainers, no container engine, or no image: nothing that could be started."""


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
        with _told("the container engine did not start it: {}", BrokerStartFailed):
            container.start()
    except BrokerStartFailed as error:
        if "ryuk" not in str(error):
            raise
        raise ContainerUnavailable(
            f"{error}; to do without Ryuk, which removes what killed tests leave behind, set"
            " TESTCONTAINERS_RYUK_DISABLED=true"
        ) from error


@contextlib.contextmanager
def _told(text: str, kind: type[EmbeddedBrokerError] = ContainerUnavailable) -> Iterator[None]:
    """Raise what the engine says, or that it does not answer, as `kind`; {} in `text` is that."""
    from docker.errors import DockerException  # noqa: PLC0415 - comes with testcontainers

    try:
        yield
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        _drop_sockets(error)
        raise kind(text.format(error)) from error


def _drop_sockets(error: BaseException | None) -> None:
    """End, without the warning, the socket that docker-py forgets when it cannot connect it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        while error is not None:
            traceback.clear_frames(error.__traceback__)
            error = error.__context__
