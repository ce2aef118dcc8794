"""Opening a TCP connection: address text to a ready socket, or an error that says what to check."""

from __future__ import annotations

import socket
import struct
import sys

from orderly.errors import ConnectFailed

_KEEPALIVE = (  # a peer that vanished without a word is noticed after about a minute
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 30_000),  # milliseconds; Linux only
)


def open_socket(address: str, *, connect_timeout: float, write_timeout: float) -> socket.socket:
    """Connect; the socket blocks, and reads wait without limit.

    Args:
        address: "host:port", or "[::1]:port" for IPv6.
        connect_timeout: seconds for each address the name resolves to.
        write_timeout: seconds; a write that makes no progress for so long raises
            BlockingIOError.

    Raises:
        ConnectFailed: names the address and what to check.
    """
    host, port = _split(address)
    try:
        sock = socket.create_connection((host, port), connect_timeout)
    except (OSError, UnicodeError) as error:  # the latter of names that no name server can have
        raise ConnectFailed(_advice(address, host, connect_timeout, error), address) from error
    try:
        _configure(sock, write_timeout)
    except OSError as error:
        sock.close()
        raise ConnectFailed(f"{address} broke the connection at once: {error}", address) from error
    return sock


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 65536:
        raise ConnectFailed(f"{address!r} is not an address; expected host:port", address)
    return host.strip("[]"), int(port)


def _configure(sock: socket.socket, write_timeout: float) -> None:
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
    if sys.platform != "win32":  # there SO_SNDTIMEO has another format
        seconds, rest = divmod(write_timeout, 1)
        limit = struct.pack("@ll", int(seconds), int(rest * 1_000_000))  # struct timeval
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _advice(address: str, host: str, timeout: float, error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror):
        return f"cannot resolve {host!r} of {address}: {error.strerror}; check the name and the DNS"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {address}; check the address and that the server there runs"
    if isinstance(error, TimeoutError):
        return (
            f"no answer from {address} within {timeout:g} s; check the address, firewalls, and"
            " that the broker announces an address reachable from here (its brokerIP1 setting)"
        )
    return f"cannot connect to {address}: {error}; check the address and the network"
