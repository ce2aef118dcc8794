"""Sockets and a clock for the cluster: one thread serves all connections of a FakeBroker.

Every change of the cluster, of peers and of faults happens under one lock; only the wait for the
sockets is outside of it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from orderly.errors import ProtocolError
from orderly.log import get_logger
from orderly.protocol.frame import FrameDecoder, RemotingCommand, encode_frame, reply_to
from orderly.testing.fake.cluster import FakeCluster
from orderly.testing.fake.exchange import Outgoing
from orderly.testing.fake.faults import Cut, Delay, DropRequest, DropResponse, Fail, Script

_log = get_logger("orderly.testing")
_READ_SIZE = 256 * 1024
_BACKLOG = 128


@dataclass(eq=False, slots=True)
class _Peer:
    """One client's connection."""

    number: int
    server: str
    sock: socket.socket
    decoder: FrameDecoder = field(default_factory=FrameDecoder)
    unsent: bytearray = field(default_factory=bytearray)
    muted: set[int] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class _Listener:
    """Where a server takes connections."""

    server: str
    sock: socket.socket


class FakeServer:
    """Serves a cluster on loopback. Thread-safe.

    Args:
        cluster: only used by this object from now on, or inside `changing`.
        script: the faults; likewise.
    """

    def __init__(self, cluster: FakeCluster, script: Script) -> None:
        self._cluster = cluster
        self._script = script
        self._lock = threading.Lock()
        self._selector = selectors.DefaultSelector()
        self._waker, wakened = socket.socketpair()
        self._wakened = wakened
        for end in (self._waker, wakened):
            end.setblocking(False)
        self._selector.register(wakened, selectors.EVENT_READ, None)
        self._numbers = itertools.count(1)
        self._peers: dict[int, _Peer] = {}
        self._listeners: dict[str, _Listener] = {}
        self._paused: set[str] = set()
        self._late: list[tuple[float, int, int, RemotingCommand]] = []  # by time.monotonic()
        self._ahead = 0.0  # seconds the cluster's clock is ahead of this machine's
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="orderly-fake-broker", daemon=True)

    # --- from other threads --------------------------------------------------------------------

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def stop(self) -> None:
        """End all connections and the thread."""
        with self.changing():
            self._stopping = True
        self._thread.join()

    @contextlib.contextmanager
    def changing(self) -> Iterator[FakeCluster]:
        """Hold the cluster and the script; messages caused by a change are sent afterwards."""
        with self._lock:
            yield self._cluster
            with contextlib.suppress(BlockingIOError):  # full: it wakes up anyway
                self._waker.send(b"\0")

    def listen(self, server: str, listener: socket.socket) -> None:
        """Take connections for a server on a listening socket."""
        listener.setblocking(False)
        with self.changing():
            self._listeners[server] = _Listener(server, listener)
            self._watch(self._listeners[server])

    def cut_off(self, server: str) -> None:
        """Close a server's socket and end all its connections."""
        with self.changing():
            self.resume_locked(server)
            listener = self._listeners.pop(server, None)
            if listener is not None:
                self._unwatch(listener)
                listener.sock.close()
            for peer in [p for p in self._peers.values() if p.server == server]:
                self._close(peer)

    def kill(self, broker: str) -> None:
        """Let a broker end at once, see `FakeCluster.kill_broker`."""
        with self.changing() as cluster:
            cluster.kill_broker(broker, self._now())

    def pause(self, server: str) -> None:
        """Read and write nothing on a server's connections; the kernel still takes them."""
        with self.changing():
            if server not in self._paused:
                for item in self._of(server):
                    self._unwatch(item)
            self._paused.add(server)

    def resume(self, server: str) -> None:
        """Go on where a pause began."""
        with self.changing():
            self.resume_locked(server)

    def resume_locked(self, server: str) -> None:
        """`resume`, for a caller that is inside `changing`."""
        if server in self._paused:
            self._paused.discard(server)
            for item in self._of(server):
                self._watch(item)

    def jump_clock(self, seconds: float) -> None:
        """Move the cluster's clock; how late scripted delays are does not change with it."""
        with self.changing():
            self._ahead += seconds

    # --- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                ready = self._selector.select(self._patience())
                with self._lock:
                    self._serve(ready)
        finally:
            self._shut()

    def _patience(self) -> float | None:
        """Seconds until something is due; None: nothing is."""
        with self._lock:
            now = self._now()
            event = self._cluster.next_event(now)
            waits = [] if event is None else [event - now]
            waits += [self._late[0][0] - time.monotonic()] if self._late else []
        return max(min(waits), 0.0) if waits else None

    def _serve(self, ready: Iterable[tuple[selectors.SelectorKey, int]]) -> None:
        for key, events in ready:
            if key.data is None:
                self._wakened.recv(_READ_SIZE)
            elif isinstance(key.data, _Listener):
                self._accept(key.data)
            elif key.data.number in self._peers:  # not ended a moment ago
                self._serve_peer(key.data, events)
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, number, command = heapq.heappop(self._late)
            if number in self._peers:
                self._execute(self._peers[number], command)
        self._send(self._cluster.tick(self._now()))

    def _serve_peer(self, peer: _Peer, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush(peer)
        if events & selectors.EVENT_READ:
            self._read(peer)

    def _accept(self, listener: _Listener) -> None:
        try:
            sock, (host, port) = listener.sock.accept()
        except OSError:  # the client has given up already
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer = _Peer(next(self._numbers), listener.server, sock)
        self._peers[peer.number] = peer
        self._cluster.connected(peer.number, peer.server, f"{host}:{port}")
        self._watch(peer)

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.sock.recv(_READ_SIZE)
            commands = peer.decoder.receive(data)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            _log.debug("fake broker ends a connection", cause=str(error))
            data, commands = b"", []
        if any(command.dropped for command in commands):  # larger than a broker takes
            data, commands = b"", []
        for command in commands:
            if peer.number in self._peers:
                self._receive(peer, command)
        if not data and peer.number in self._peers:
            self._close(peer)

    def _receive(self, peer: _Peer, command: RemotingCommand) -> None:
        action = None if command.is_response else self._script.decide(command)
        match action:
            case Delay(seconds):
                due = time.monotonic() + seconds
                heapq.heappush(self._late, (due, next(self._numbers), peer.number, command))
            case DropRequest():
                pass
            case Cut():
                self._close(peer)
            case Fail(code, remark):
                self._send([Outgoing(peer.number, reply_to(command, code, remark=remark))])
            case _:
                if isinstance(action, DropResponse):
                    peer.muted.add(command.request_id)
                self._execute(peer, command)

    def _execute(self, peer: _Peer, command: RemotingCommand) -> None:
        self._send(self._cluster.handle(peer.number, command, self._now()))

    def _now(self) -> float:
        return time.time() + self._ahead

    # --- writing and ending --------------------------------------------------------------------

    def _send(self, outgoing: Iterable[Outgoing]) -> None:
        for out in outgoing:
            peer = self._peers.get(out.connection_id)
            if peer is None:
                continue
            if out.command.is_response and out.command.request_id in peer.muted:
                peer.muted.discard(out.command.request_id)
                continue
            peer.unsent += encode_frame(out.command)
            if peer.server not in self._paused:
                self._flush(peer)

    def _flush(self, peer: _Peer) -> None:
        try:
            while peer.unsent:
                del peer.unsent[: peer.sock.send(peer.unsent)]
        except BlockingIOError:
            pass
        except OSError:  # the reader notices, too
            peer.unsent.clear()
        self._selector.modify(peer.sock, _interest(peer), peer)

    def _close(self, peer: _Peer) -> None:
        del self._peers[peer.number]
        self._unwatch(peer)
        peer.sock.close()
        self._send(self._cluster.disconnected(peer.number))

    def _shut(self) -> None:
        with self._lock:
            for server in {*self._listeners, *(peer.server for peer in self._peers.values())}:
                for item in self._of(server):
                    item.sock.close()
            self._peers.clear()
            self._listeners.clear()
            self._selector.close()
            self._waker.close()
            self._wakened.close()

    def _of(self, server: str) -> list[_Peer | _Listener]:
        """All sockets of a server."""
        items: list[_Peer | _Listener] = [*self._listeners.values(), *self._peers.values()]
        return [item for item in items if item.server == server]

    def _watch(self, item: _Peer | _Listener) -> None:
        events = _interest(item) if isinstance(item, _Peer) else selectors.EVENT_READ
        self._selector.register(item.sock, events, item)

    def _unwatch(self, item: _Peer | _Listener) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(item.sock)


def _interest(peer: _Peer) -> int:
    return selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)


def listening_socket(port: int) -> socket.socket:
    """Listen on a loopback port; 0: a free one.

    Raises:
        OSError: it is taken.
    """
    return socket.create_server(("127.0.0.1", port), backlog=_BACKLOG)
