"""A TCP proxy between clients and a server of RocketMQ, which breaks connections as a test says.

Clients find a broker under the address it registers, so that must be the proxy's: the broker
listens on 127.0.0.1:P and registers 127.0.0.2:P (its setting brokerIP1), where the proxy listens
and passes all on to 127.0.0.1:P. Nothing is rewritten, and the port may be chosen by the system.
(Linux answers on all of 127.0.0.0/8; on macOS the alias has to be added: ifconfig lo0 alias.)
"""

import contextlib
import math
import re
import socket
import struct
import threading
from collections import Counter
from enum import Enum

from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
_CLIENT_ID = re.compile(rb'"clientI[dD]":"([^"]+)"')  # in the bodies of heartbeats and locks
_CHUNK = 64 * 1024


class Way(Enum):
    """Which way a frame goes."""

    REQUEST = "from the client"
    REPLY = "to the client"


class Proxy:
    """Passes frames on until told otherwise; `heal` ends every fault. Thread-safe.

    Args:
        listen, target: "host:port".

    Attributes:
        seen: how many requests of which code came by.
        dropped: how many frames of which request code were dropped by `lose`.
    """

    def __init__(self, listen, target):
        self._listen, self._target = _address(listen), _address(target)
        self._lock = threading.Lock()
        self._links = set()
        self._listener = None
        self._to_lose = Counter()
        self.seen, self.dropped = Counter(), Counter()
        self.delay, self.rate = 0.0, math.inf
        self.swallowed = frozenset()
        self.answers = {}

    def __enter__(self):
        self.accept()
        return self

    def __exit__(self, *_):
        self.refuse()
        self.cut()

    # --- faults --------------------------------------------------------------------------------

    def cut(self, client_id=None):
        """Reset connections (RST), all or those of one client; new ones are accepted."""
        for link in self._of(client_id):
            link.cut()

    def refuse(self):
        """Refuse new connections; the open ones stay."""
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
            listener.close()

    def accept(self):
        """Accept new connections (again)."""
        if self._listener is None:
            self._listener = socket.create_server(self._listen)
            name = f"proxy-accept-{self._listen[1]}"
            threading.Thread(
                target=self._accept, args=(self._listener,), name=name, daemon=True
            ).start()

    def slow(self, delay, rate=math.inf):
        """Hold each frame up: `delay` seconds, and its size by `rate` bytes/s, each way."""
        self.delay, self.rate = delay, rate

    def swallow(self, *ways):
        """Accept everything and pass nothing on, one way or both: new connections, too."""
        self.swallowed = frozenset(ways or Way)

    def freeze(self, client_id=None):
        """Swallow both ways on the connections open now, for good; new ones are passed."""
        for link in self._of(client_id):
            link.frozen = True

    def lose(self, code, way=Way.REPLY, times=1):
        """Drop the next requests of this code, or the replies to them."""
        with self._lock:
            self.dropped[int(code)] = 0
            self._to_lose[way, int(code)] = times

    def answer(self, codes, reply_code, remark):
        """Answer requests of these codes in the server's place; it never sees them."""
        self.answers = dict.fromkeys(map(int, codes), (int(reply_code), remark))

    def heal(self):
        """End every fault. Connections that lost frames are reset, as their peers' would be."""
        with self._lock:
            self._to_lose.clear()
        self.delay, self.rate, self.swallowed, self.answers = 0.0, math.inf, frozenset(), {}
        for link in self._of(None):
            if link.lossy:
                link.cut()
        self.accept()

    # --- links ---------------------------------------------------------------------------------

    def passes(self, way, code):
        """Whether a frame may pass; counts it."""
        with self._lock:
            self.seen[code] += way is Way.REQUEST
            lost = self._to_lose[way, code] > 0
            if lost:
                self._to_lose[way, code] -= 1
                self.dropped[code] += 1
        return not lost

    def forget(self, link):
        with self._lock:
            self._links.discard(link)

    def _of(self, client_id):
        with self._lock:
            return [link for link in self._links if client_id in (None, link.client_id)]

    def _accept(self, listener):
        with contextlib.suppress(OSError):  # closed by refuse()
            while True:
                client, _ = listener.accept()
                self._connect(client)

    def _connect(self, client):
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        link = Link(self, client, server)
        with self._lock:
            self._links.add(link)
        link.start()


class Link:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, proxy, client, server):
        self._proxy = proxy
        self._sockets = (client, server)
        self._writing = {client: threading.Lock(), server: threading.Lock()}
        self._asked = {}
        self._ended = threading.Event()
        self.client_id = None
        self.frozen = False
        self.lossy = False
        for sock in self._sockets:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self):
        client, server = self._sockets
        for way, source, sink in ((Way.REQUEST, client, server), (Way.REPLY, server, client)):
            name = f"proxy-{way.name.lower()}"
            threading.Thread(
                target=self._pump, args=(way, source, sink), name=name, daemon=True
            ).start()

    def cut(self):
        self._ended.set()
        for sock in self._sockets:
            _reset(sock)
        self._proxy.forget(self)

    def _pump(self, way, source, sink):
        try:
            for frame in _frames(source):
                if self._admits(way, frame):
                    self._hold_up(len(frame))
                    self._write(sink, frame)
        except OSError:
            pass  # an end was reset: so is the other
        finally:
            self.cut()

    def _write(self, sink, frame):
        with self._writing[sink]:
            sink.sendall(frame)

    def _admits(self, way, frame):
        (command,) = FrameDecoder().receive(frame)
        code = self._note(way, command)
        if self.frozen or way in self._proxy.swallowed:
            self.lossy = True
            return False
        if way is Way.REQUEST and code in self._proxy.answers:
            reply_code, remark = self._proxy.answers[code]
            reply = reply_to(command, reply_code, remark=remark)
            self._write(self._sockets[0], encode_frame(reply))
            return False
        return self._proxy.passes(way, code)

    def _hold_up(self, size):
        seconds = self._proxy.delay + size / self._proxy.rate
        if seconds:
            self._ended.wait(seconds)

    def _note(self, way, command):
        """The request code the frame belongs to; None: a request of the server's, or its reply."""
        if way is Way.REPLY:
            return self._asked.pop(command.request_id, None) if command.is_response else None
        if command.is_response:
            return None
        self._asked[command.request_id] = command.code
        if self.client_id is None and (found := _CLIENT_ID.search(command.body)):
            self.client_id = found[1].decode()
        return command.code


def _frames(sock):
    """The frames that arrive, each whole with its length in front, until the end."""
    buffer = bytearray()
    while data := sock.recv(_CHUNK):
        buffer += data
        while len(buffer) >= 4 and len(buffer) >= (end := 4 + int.from_bytes(buffer[:4], "big")):
            yield bytes(buffer[:end])
            del buffer[:end]


def _reset(sock):
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        sock.shutdown(socket.SHUT_RD)  # wakes the thread in recv()
    sock.close()


def _address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)
