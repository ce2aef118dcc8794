"""A TCP server without a mind of its own: the test reads what came and writes what it likes."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.client.background import Schedule
from orderly.client.connection import Connection
from orderly.client.security import UNPROTECTED, security_of
from orderly.clock import AwakeClock
from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to
from tests.support.certificates import Authority, server_context, trusting
from tests.support.waiting import Inbox

SOON = 30.0  # a deadline for what takes milliseconds


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock):
        self.sock = sock
        self.sock.settimeout(SOON)
        self._decoder = FrameDecoder()
        self._commands = []

    def read(self):
        while not self._commands:
            data = self.sock.recv(65536)
            assert data, "the client closed the connection"
            self._commands = self._decoder.receive(data)
        return self._commands.pop(0)

    def at_end(self):
        return self.sock.recv(1) == b""

    def send(self, *commands):
        self.sock.sendall(b"".join(encode_frame(c) for c in commands))

    def answer(self, request, **fields):
        self.send(reply_to(request, **fields))

    def close(self):
        self.sock.close()

    def reset(self):
        """Cut hard: the client gets ECONNRESET."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class ScriptedServer:
    """Listens on loopback; connections wait in the backlog until the test accepts them."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(SOON)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._peers = []

    def accept(self):
        peer = Peer(self._listener.accept()[0])
        self._peers.append(peer)
        return peer

    def pending_connections(self):
        """Accept whatever waits and say how many that were."""
        self._listener.settimeout(0)
        count = 0
        try:
            while True:
                self._peers.append(Peer(self._listener.accept()[0]))
                count += 1
        except BlockingIOError:
            return count
        finally:
            self._listener.settimeout(SOON)

    def stop_listening(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for a connection
        self._listener.close()

    def close(self):
        self.stop_listening()
        for peer in self._peers:
            peer.close()


class TlsServer(ScriptedServer):
    """As ScriptedServer; shakes hands on a thread, so that the test need not accept in time."""

    def __init__(self, context):
        super().__init__()
        self._context = context
        self._ready = queue.Queue()
        self._thread = threading.Thread(target=self._shake_hands, daemon=True)
        self._thread.start()

    def _shake_hands(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                sock = self._listener.accept()[0]
                try:
                    peer = Peer(self._context.wrap_socket(sock, server_side=True))
                except OSError as error:
                    self._ready.put(error)
                else:
                    self._peers.append(peer)
                    self._ready.put(peer)

    def accept(self):
        peer = self._ready.get(timeout=SOON)
        if isinstance(peer, OSError):
            raise peer
        return peer

    def stop_listening(self):
        super().stop_listening()
        self._thread.join(SOON)


@pytest.fixture
def encrypted():
    """Whether `server` and `connect` speak TLS; a test file may say so."""
    return False


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def certificate(authority):
    return authority.issue("server")


@pytest.fixture
def server(request, encrypted):
    if encrypted:
        server = TlsServer(server_context(request.getfixturevalue("certificate")))
    else:
        server = ScriptedServer()
    yield server
    server.close()


@pytest.fixture
def inbox():
    return Inbox


@pytest.fixture
def timeouts():
    schedule = Schedule("timeouts-test")
    yield schedule
    schedule.close()


@pytest.fixture
def awake():
    clock = AwakeClock()
    yield clock
    clock.close()


@pytest.fixture
def security(request, encrypted):
    if not encrypted:
        return UNPROTECTED
    return security_of(trusting(request.getfixturevalue("authority")))


@pytest.fixture
def connect(server, timeouts, awake, security):
    """Open a connection to the server; closed after the test."""
    opened = []

    def connect(*, on_request=lambda *_: None, on_close=lambda _: None, max_frame=2**24):
        connection = Connection(
            server.address,
            timeouts=timeouts,
            awake=awake,
            connect_timeout=SOON,  # a handshake is in it
            max_frame=max_frame,
            on_request=on_request,
            on_close=on_close,
            security=security,
        )
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def in_thread():
    """Run a function on a thread; the result is a Future."""
    with ThreadPoolExecutor(32) as pool:
        yield pool.submit
