"""Free ports on loopback."""

from __future__ import annotations

import contextlib
import secrets
import socket

from orderly.errors import EmbeddedBrokerError

_ATTEMPTS = 200
_LOWEST, _HIGHEST = 10_240, 32_000  # below where systems take ports for outgoing connections


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
