"""Free ports on loopback."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable

from orderly.errors import EmbeddedBrokerError

_ATTEMPTS = 200
_LOWEST, _HIGHEST = 10_240, 32_000  # below where systems take ports for outgoing connections

_STARTS = 3
_TAKEN = ("address already in use", "port is already allocated")  # Java and Linux; Docker


def on_free_ports(start: Callable[[], None], undo: Callable[[], None], *, ours: bool) -> None:
    """Start servers; again, on other ports, where somebody took a free port before they did.

    Args:
        start: chooses ports and starts.
        undo: ends what a failed start left.
        ours: whether `start` may choose another port.

    Raises:
        BaseException: what `start` raised last.
    """
    for starts_left in reversed(range(_STARTS)):
        try:
            start()
        except BaseException as error:
            undo()
            if not (starts_left and ours and _is_port_taken(error)):
                raise
        else:
            return


def _is_port_taken(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, EmbeddedBrokerError) and any(word in text for word in _TAKEN)


def free_port(*neighbours: int) -> int:
    """Return a port P such that P and each P + neighbour is free on 127.0.0.1 right now.

    A broker listens at P, at P-2 (its "VIP" port) and at P+1 (replication).
    """
    for _ in range(_ATTEMPTS):
        port = _LOWEST + secrets.randbelow(_HIGHEST - _LOWEST)
        if all(is_free(port + distance) for distance in (0, *neighbours)):
            return port
    raise EmbeddedBrokerError("no free ports on 127.0.0.1; end some programs and try again")


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    if not 1024 <= port < 65536:
        return False
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def usable_port(name: str, wanted: int, *neighbours: int) -> int:
    """Return the port that a server is to have, free with its neighbours (see `free_port`).

    Args:
        name: of the server, for the error.
        wanted: the port; 0: any.
        neighbours: distances of the other ports at which it listens.

    Raises:
        EmbeddedBrokerError: one of them is in use.
    """
    if wanted == 0:
        return free_port(*neighbours)
    taken = [wanted + n for n in (0, *neighbours) if not is_free(wanted + n)]
    if taken:
        raise EmbeddedBrokerError(
            f"the {name} cannot listen on port {wanted}: {taken} on 127.0.0.1 is in use;"
            " choose another port, or 0 for a free one"
        )
    return wanted
