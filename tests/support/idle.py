"""Connections to a server that never ask for anything."""

import contextlib
import socket


@contextlib.contextmanager
def idle_connections(port, count=16):
    """That many, held until the end."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        yield
