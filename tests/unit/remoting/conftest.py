"""A TCP server without a mind of its own: the test reads what came and writes what it likes."""

import socket
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to
from orderly.remoting.connection import Connection
from orderly.remoting.schedule import Schedule
from tests.support.inbox import Inbox

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
        self._listener.close()

    def close(self):
        self._listener.close()
        for peer in self._peers:
            peer.close()


@pytest.fixture
def server():
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
def connect(server, timeouts):
    """Open a connection to the server; closed after the test."""
    opened = []

    def connect(*, on_request=lambda *_: None, on_close=lambda _: None, max_frame=2**24):
        connection = Connection(
            server.address,
            timeouts=timeouts,
            connect_timeout=2.0,
            max_frame=max_frame,
            on_request=on_request,
            on_close=on_close,
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
