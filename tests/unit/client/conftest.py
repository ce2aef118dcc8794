"""A cluster that answers what the test tells it to: name servers and brokers on loopback."""

import contextlib
import json
import socket
import threading

import pytest

from orderly.client import Client
from orderly.config import ClientConfig
from orderly.errors import OrderlyError
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to
from tests.support.waiting import Inbox

SOON = 30.0
NEVER = 3600.0


class Server:
    """Answers each request by a function of the request, looked up by its code.

    A function returns a reply, or None to stay silent. Unknown codes are answered with 3.
    """

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.received = []  # (number of the connection, command)
        self.accepted = 0
        self._handlers = {}
        self._peers = []
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def on(self, request_code, handler=None, **reply):
        """Answer requests of that code with `handler(request)`, or a reply of these fields."""
        self._handlers[request_code] = handler or (lambda request: reply_to(request, **reply))

    def requests(self, code):
        return [command for _, command in list(self.received) if command.code == code]

    def wait_for(self, code, count=1):
        """The requests of that code, once there are `count`."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.requests(code)) >= count, SOON)
        assert enough, f"{len(self.requests(code))} of {count} requests {code}: {self.received}"
        return self.requests(code)

    def open_connections(self):
        with self._changed:
            return len(self._peers)

    def push(self, command):
        """Send a request of the server's own on all connections."""
        with self._changed:
            for peer in self._peers:
                peer.sendall(encode_frame(command))

    def cut(self):
        """End all connections; new ones are accepted."""
        with self._changed:
            for peer in self._peers:
                peer.shutdown(socket.SHUT_RDWR)

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._listener.close()
        self.cut()

    def _accept(self):
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            with self._changed:
                self.accepted += 1
                self._peers.append(peer)
            threading.Thread(target=self._serve, args=(peer, self.accepted), daemon=True).start()

    def _serve(self, peer, number):
        decoder = FrameDecoder()
        try:
            while data := peer.recv(65536):
                for command in decoder.receive(data):
                    self._answer(peer, number, command)
        except OSError:
            pass
        finally:
            with self._changed:
                self._peers.remove(peer)
                self._changed.notify_all()
            peer.close()

    def _answer(self, peer, number, command):
        with self._changed:
            self.received.append((number, command))
            self._changed.notify_all()
        if command.is_response or command.is_oneway:
            return
        handler = self._handlers.get(command.code)
        reply = handler(command) if handler else reply_to(command, 3, remark="not scripted")
        if reply is not None:
            peer.sendall(encode_frame(reply))


class Cluster:
    """A name server's knowledge: topics with their queues, brokers with their addresses."""

    def __init__(self):
        self.topics = {}  # topic -> {broker name: (queues, {broker id: address})}

    def add(self, topic, queues=4, **brokers):
        """Let `topic` live on brokers given as name={id: address}."""
        self.topics[topic] = {name: (queues, addresses) for name, addresses in brokers.items()}

    def answer_route(self, request):
        layout = self.topics.get(request.ext["topic"])
        if layout is None:
            return reply_to(request, 17, remark="No topic route info")
        route = {
            "queueDatas": [
                {"brokerName": n, "readQueueNums": q, "writeQueueNums": q, "perm": 6}
                for n, (q, _) in layout.items()
            ],
            "brokerDatas": [
                {"brokerName": n, "cluster": "C", "brokerAddrs": addresses}
                for n, (_, addresses) in layout.items()
            ],
        }
        return reply_to(request, body=json.dumps(route).encode())

    def answer_cluster(self, request):
        names = {n: a for layout in self.topics.values() for n, (_, a) in layout.items()}
        info = {
            "brokerAddrTable": {
                n: {"brokerName": n, "cluster": "C", "brokerAddrs": a} for n, a in names.items()
            },
            "clusterAddrTable": {"C": sorted(names)},
        }
        return reply_to(request, body=json.dumps(info).encode())


@pytest.fixture
def new_server():
    """Make a server that runs until the end of the test."""
    servers = []

    def new():
        servers.append(Server())
        return servers[-1]

    yield new
    for server in servers:
        server.close()


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def name_server(new_server, cluster):
    server = new_server()
    server.on(RequestCode.GET_ROUTEINFO_BY_TOPIC, cluster.answer_route)
    server.on(RequestCode.GET_BROKER_CLUSTER_INFO, cluster.answer_cluster)
    return server


@pytest.fixture
def new_broker(new_server):
    def new():
        broker = new_server()
        broker.on(RequestCode.HEART_BEAT)
        broker.on(RequestCode.UNREGISTER_CLIENT)
        return broker

    return new


@pytest.fixture
def broker(new_broker, cluster):
    """One broker, "broker-a", with topic "orders" of 4 queues."""
    broker = new_broker()
    cluster.add("orders", **{"broker-a": {0: broker.address}})
    return broker


@pytest.fixture
def new_client(name_server):
    """Make a client; timers are out of the way unless set."""
    clients = []

    def new(namesrv="", **settings):
        settings = {
            "request_timeout": 5.0,
            "connect_timeout": 2.0,
            "route_interval": NEVER,
            "heartbeat_interval": NEVER,
        } | settings
        config = ClientConfig(namesrv=namesrv or name_server.address, **settings)
        clients.append(Client(config))
        return clients[-1]

    yield new
    for client in clients:
        client.close()


@pytest.fixture
def client(new_client):
    return new_client().start()


@pytest.fixture
def inbox():
    return Inbox()


def error_of(call, *args, **kwargs):
    """The OrderlyError a call raises."""
    with pytest.raises(OrderlyError) as raised:
        call(*args, **kwargs)
    return raised.value


@pytest.fixture(name="error_of")
def _error_of():
    return error_of
