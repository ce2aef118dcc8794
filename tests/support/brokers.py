"""Real brokers of a test's own: short leases, proxies, a cluster, and an operator."""

import contextlib
import math
import re
import socket
import struct
import threading
from collections import Counter
from enum import Enum

from orderly import Client, ClientConfig, ConsumerConfig
from orderly.config.consumer import BROKER_LEASE
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import FrameDecoder, encode_frame, reply_to, request
from orderly.protocol.groups import GroupConfig, encode_group_config
from orderly.protocol.locks import lock_request
from orderly.protocol.topics import CreateTopic, DeleteTopicInBroker, DeleteTopicInNameServer
from orderly.testing import EmbeddedBroker, EmbeddedCluster
from orderly.testing.ports import free_port
from tests.support.waiting import PATIENCE, eventually

# --- leases ---------------------------------------------------------------------------------------
# A broker whose queue locks run out sooner than after 60 s, and members in step with it.
#
# Only numbers change, in proportion: the broker's lease, half of it for the trust in a lock, and
# shorter rounds and time-outs.


SHORT = 12.0  # seconds; a lease long enough for a busy machine, short enough to wait for


def leasing_broker(lease, **settings):
    """An embedded broker (not started) that frees a lock `lease` seconds after its renewal."""
    option = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={round(lease * 1000)}"
    return EmbeddedBroker(java_options=[option, *settings.pop("java_options", ())], **settings)


def consumer_config(lease, **settings):
    """A member's settings for that broker; the library's own for the true 60 s."""
    short = {
        "lock_trust": lease / 2,
        "lock_interval": lease / 8,
        "rebalance_interval": 5.0,
        "pull_retry": 0.5,
        "commit_interval": 0.5,
    }
    ours = {} if lease == BROKER_LEASE else short
    return ConsumerConfig(**{"consume_from": "first"} | ours | settings)


def client_config(lease, namesrv):
    """A client's settings for that broker."""
    if lease == BROKER_LEASE:
        return ClientConfig(namesrv=namesrv)
    patience = max(lease / 8, 1.0)  # a member that cannot even start tells nothing of leases
    return ClientConfig(namesrv=namesrv, request_timeout=patience, connect_timeout=patience)


# --- proxy ----------------------------------------------------------------------------------------
# A TCP proxy between clients and a server of RocketMQ, which breaks connections as a test says.
#
# Clients find a broker under the address it registers, so that must be the proxy's: the broker
# listens on 127.0.0.1:P and registers 127.0.0.2:P (its setting brokerIP1), where the proxy listens
# and passes all on to 127.0.0.1:P. Nothing is rewritten, and the port may be chosen by the system.
# (Linux answers on all of 127.0.0.0/8; on macOS the alias has to be added: ifconfig lo0 alias.)


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


# --- proxied --------------------------------------------------------------------------------------
# A real broker with a short lease behind a proxy.


@contextlib.contextmanager
def proxied_broker():
    """(proxy, broker): clients reach the broker through the proxy only. It stands first."""
    port = free_port(-2, 1)
    with (
        Proxy(f"127.0.0.2:{port}", f"127.0.0.1:{port}") as proxy,
        leasing_broker(
            SHORT, broker_port=port, broker_properties={"brokerIP1": "127.0.0.2"}
        ) as broker,
    ):
        yield proxy, broker


# --- cluster --------------------------------------------------------------------------------------
# A real cluster behind proxies: two masters in two machine rooms, and a slave of the first.


EAST, WEST = "east@broker-a", "west@broker-b"
REPLICATED = "replicated"  # a topic; made first, since slaves learn of topics once a minute
SETTINGS = {
    "brokerIP1": "127.0.0.2",  # where the proxies listen; brokerIP2, for the slave, is direct
    "slaveReadEnable": "true",
    "accessMessageInMemoryMaxRatio": "0",  # whoever is behind is told to read from the slave
}


class ProxiedCluster:
    """The cluster, and the proxy before each broker.

    Attributes:
        cluster: the EmbeddedCluster.
        proxies: by broker name and id.
    """

    def __init__(self, cluster, proxies):
        self.cluster, self.proxies = cluster, proxies
        self.namesrv = cluster.namesrv
        self.master, self.other = cluster.broker(EAST), cluster.broker(WEST)
        self.slave = cluster.broker(EAST, 1)

    def seen(self, broker, code):
        """How many requests of this code came by a broker's proxy."""
        return self.proxies[broker.name, broker.broker_id].seen[code]

    def mend(self):
        """End every fault: all brokers run, and can be reached."""
        for proxy in self.proxies.values():
            proxy.heal()
        for broker in self.cluster.brokers:
            broker.resume()
            if not broker.alive:
                broker.restart()


@contextlib.contextmanager
def proxied_cluster():
    """A ProxiedCluster whose locks run out after `SHORT` seconds."""
    lease = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={round(SHORT * 1000)}"
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            EmbeddedCluster(
                [EAST, WEST],
                [EAST],
                broker_properties=SETTINGS,
                namesrv_properties={"orderMessageEnable": "true"},
                java_options=[lease],
            )
        )
        proxies = {}
        for broker in cluster.brokers:
            outside = broker.address.replace("127.0.0.1", "127.0.0.2")
            proxy = stack.enter_context(Proxy(outside, broker.address))
            proxies[broker.name, broker.broker_id] = proxy
            stack.enter_context(Proxy(*map(_vip, (outside, broker.address))))
        with Client(namesrv=cluster.namesrv) as client:
            client.admin.create_topic(REPLICATED, 4)
        yield ProxiedCluster(cluster, proxies)


def _vip(address):
    """The port at which a slave asks its master for topics."""
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) - 2}"


def place(queue):
    """How records name a queue: its id alone would be that of two."""
    return queue.broker_name, queue.queue_id


# --- operator -------------------------------------------------------------------------------------
# What an operator changes at a broker, behind the back of whoever uses it.


def set_topic(client, topic, *, read, write, perm=6):
    """Replace a topic's number of queues and its permission (mqadmin updateTopic)."""
    header = CreateTopic(
        topic=topic, read_queue_nums=read, write_queue_nums=write, perm=perm, order=True
    )
    _ask_brokers(client, request(header.code, to_ext(header)))


def delete_topic(client, topic, *, routes=True):
    """Delete a topic (mqadmin deleteTopic); without `routes` name servers go on telling of it."""
    header = DeleteTopicInBroker(topic=topic)
    # Without its timer wheel (as the embedded one) a broker deletes the topic, and then fails.
    _ask_brokers(client, request(header.code, to_ext(header)), accept=(0, 1))
    header = DeleteTopicInNameServer(topic=topic)
    for address in client.config.addresses if routes else ():
        _ask(client, address, request(header.code, to_ext(header)))


def set_group(client, group, **settings):
    """Create a group with these settings, or replace its own (mqadmin updateSubGroup)."""
    body = encode_group_config(GroupConfig(name=group, **settings))
    _ask_brokers(client, request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))


def delete_group(client, group):
    """Delete a group with its offsets (mqadmin deleteSubGroup -r)."""
    header = {"groupName": group, "cleanOffset": "true", "removeOffset": "true"}
    _ask_brokers(client, request(RequestCode.DELETE_SUBSCRIPTIONGROUP, header))


def unlock_for(client, client_id, group, queue):
    """Unlock a queue in the name of the member that holds it, dead or alive."""
    body = lock_request(group, client_id, [queue])
    _ask_brokers(client, request(RequestCode.UNLOCK_BATCH_MQ, body=body))


def take_lock_from(client, client_id, group, queue):
    """Unlock a queue in the name of the member that holds it, and lock it for `client`."""

    def taken():  # unless the member renewed it in between
        unlock_for(client, client_id, group, queue)
        return client.brokers.lock_queues(group, queue.broker_name, [queue])

    eventually(taken)


@contextlib.contextmanager
def broker_setting(client, name, value):
    """Change a setting of the one broker there is, and change it back at the end."""
    (broker,) = client.admin.cluster().brokers.values()
    config = _ask(client, broker.master, request(RequestCode.GET_BROKER_CONFIG)).body.decode()
    before = dict(line.split("=", 1) for line in config.splitlines())[name]

    def change(text):
        body = f"{name}={text}\n".encode()
        _ask(client, broker.master, request(RequestCode.UPDATE_BROKER_CONFIG, body=body))

    change(value)
    try:
        yield
    finally:
        change(before)


def _ask_brokers(client, command, accept=(0,)):
    for broker in client.admin.cluster().brokers.values():
        _ask(client, broker.master, command, accept)


def _ask(client, address, command, accept=(0,)):
    reply = client.connections.get(address).call(command, PATIENCE)
    assert reply.code in accept, reply.remark
    return reply
