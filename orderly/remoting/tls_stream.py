"""The encrypted stream of one connection, for one thread that reads and any that write.

An SSL object of OpenSSL must not be used by two threads at once, and one that reads from a socket
itself is in use while it waits. So it works on memory here, under a lock that is held only while
it computes; the bytes go over the socket outside of it, as those of a plain connection do.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time

from orderly.remoting.tls_advice import alert_advice

_READ_SIZE = 64 * 1024
_RECORD = 16 * 1024  # bytes; TLS has no longer ones


class TlsStream:
    """What a connection sends and receives, sealed. Thread-safe; see the methods.

    Args:
        sock: connected, nothing was sent on it yet.
        context: what is trusted and offered.
        host: whom the certificate must name, if the context asks that.
    """

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str) -> None:
        self._socket = sock
        self._lock = threading.Lock()
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._ended = False

    def handshake(self, timeout: float) -> None:
        """Agree on keys; before anything else. Leaves the socket blocking.

        Args:
            timeout: seconds for all of it.

        Raises:
            OSError: it failed: ssl.SSLError if one of the two refuses the other, TimeoutError.
        """
        deadline = time.monotonic() + timeout
        while not self._agreed(deadline):
            self._socket.settimeout(_left(deadline))
            data = self._socket.recv(_READ_SIZE)
            if not data:
                raise ConnectionResetError("closed by the peer")
            self._incoming.write(data)
        self._socket.settimeout(None)

    def seal(self, frame: bytes, held: list[bytes]) -> None:
        """Append to `held` what to send for `frame`; it must go out, in the order of the calls.

        What the protocol itself wants to say (new keys) comes along: it may wait until then. An
        interruption (KeyboardInterrupt) loses nothing: what is not in `held` comes with the next.
        """
        rest = memoryview(frame)
        with self._lock:
            while rest:
                rest = rest[self._ssl.write(rest) :]
            # In C, as no signal may come between: what is read and not held would be missing.
            held.extend(map(self._outgoing.read, (-1,)))

    def recv(self, size: int = _READ_SIZE) -> bytes:
        """Wait for bytes of the peer, as a socket's recv does; b"" is the end. For one thread.

        Raises:
            OSError: the stream broke; ConnectionAbortedError if TLS ended it.
        """
        plain = self._open(b"")  # the last bytes of the handshake may bring the first of these
        while not plain and not self._ended:
            data = self._socket.recv(size)
            if not data:
                break
            plain = self._open(data)
        return plain

    def _open(self, data: bytes) -> bytes:
        """Decrypt what has come."""
        chunks = []
        try:
            with self._lock, contextlib.suppress(ssl.SSLWantReadError):
                self._incoming.write(data)
                while chunk := self._ssl.read(_RECORD):
                    chunks.append(chunk)
                self._ended = True  # the peer said that this is all
        except ssl.SSLError as error:
            raise ConnectionAbortedError(alert_advice(error)) from error
        return b"".join(chunks)

    def _agreed(self, deadline: float) -> bool:
        """Take the next step of the handshake; False if the peer has to say something."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush(deadline)
            return False
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # it tells the peer why, if it is still there
                self._flush(deadline)
            raise
        self._flush(deadline)
        return True

    def _flush(self, deadline: float) -> None:
        self._socket.settimeout(_left(deadline))
        self._socket.sendall(self._outgoing.read())


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
