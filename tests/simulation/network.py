"""The network between the simulated processes and the fake cluster, in place of sockets.

Each connection is in order, as TCP is. A fault may slow a connection, cut it, or swallow what it
carries; a broker may be down (its connections end, none can be made) or stand still.

What a connection carried when it ended is not lost with it: a broker that stood still finds it in
its sockets when it goes on, and reads those in any order. So a send of an old connection may be
carried out behind what its sender has sent on the next one.
"""

import math
from collections import deque

from orderly.errors import ConnectFailed, ConnectionLost, LifecycleError, RequestTimeout
from tests.simulation.threads import EPOCH, Lock

NAMESRV = "10.0.0.1:9876"
_LATENCY = (0.0002, 0.0028)  # seconds at least, and up to so many more
_SILENCE = 10.0  # seconds without an answer after which `Connection` gives itself up


class Network:
    """Carries commands.

    Args:
        kernel: whose time it is.
        cluster: the FakeCluster.
        servers: server name (a broker's, or NAME_SERVER) by "host:port".

    Attributes:
        unread: by link that has ended, how much of it its server will read nevertheless.
    """

    def __init__(self, kernel, cluster, servers):
        self.kernel = kernel
        self.cluster = cluster
        self.servers = servers
        self.down = set()
        self.frozen_until = {}
        self.links = {}
        self.sending = lambda link, command: None  # told of each request that leaves its client
        self.watch = lambda link, command: None  # told of each request that reaches its server
        self.refused = lambda link, command: None  # what is answered instead of the server
        self.answered = lambda link, command, outgoing: None  # told of what a server answers
        self.heard = lambda link, command: None  # told of what reaches a client
        self.interfere = lambda link, code, reply: None  # seconds late, "drop", or None
        self.left_behind = lambda link, command: (
            None
        )  # seconds until it is read, or None: it is not
        self.unread = {}
        self._numbers = 0
        self._tick_at = None

    def latency(self):
        least, more = _LATENCY
        return least + more * self.kernel.chance()

    def open(self, link):
        """Make a connection; False if the server is down."""
        server = self.servers[link.address]
        if server in self.down:
            return False
        self._numbers += 1
        link.number = self._numbers
        self.links[link.number] = link
        self.cluster.connected(link.number, server, f"10.0.1.1:{20000 + link.number}")
        return True

    def to_server(self, link, command):
        if not command.is_response:
            link.codes[command.request_id] = command.code
            self.sending(link, command)
        late = self.interfere(link, command.code, False)
        if late == "drop":
            return
        link.sent_until = max(link.sent_until, self.kernel.now + self.latency() + (late or 0.0))
        link.under_way.append(command)
        self.kernel.at(link.sent_until, lambda: self._arrive(link))

    def _arrive(self, link):
        """The oldest command under way is there; a frozen server takes it later, in order."""
        if link.number not in self.links:
            return
        server = self.servers[link.address]
        frozen = self.frozen_until.get(server, 0.0)
        if frozen > self.kernel.now:
            self.kernel.at(frozen, lambda: self._arrive(link))
            return
        self._carry_out(link, link.under_way.popleft())

    def _carry_out(self, link, command):
        self.watch(link, command)
        outgoing = self.refused(link, command)
        if outgoing is None:
            outgoing = self.cluster.handle(link.number, command, EPOCH + self.kernel.now)
        self.answered(link, command, outgoing)
        self.send_all(outgoing)
        self._plan_tick()

    def send_all(self, outgoing):
        for out in outgoing:
            link = self.links.get(out.connection_id)
            if link is not None:
                self._to_client(link, out.command)

    def _to_client(self, link, command):
        code = link.codes.pop(command.request_id, None) if command.is_response else command.code
        late = self.interfere(link, code, True)
        if late == "drop":
            return
        link.got_until = max(link.got_until, self.kernel.now + self.latency() + (late or 0.0))
        self.kernel.at(link.got_until, lambda: self._deliver(link, command))

    def _deliver(self, link, command):
        if link.number not in self.links:  # it has ended: nobody reads it any more
            return
        self.heard(link, command)
        link.arrived(command)

    def _plan_tick(self):
        due = self.cluster.next_event(EPOCH + self.kernel.now)
        if due is None:
            return
        moment = max(due - EPOCH, self.kernel.now + 0.001)
        if self._tick_at is None or moment < self._tick_at:
            self._tick_at = moment
            self.kernel.at(moment, lambda: self._tick(moment))

    def _tick(self, planned):
        if self._tick_at != planned:
            return
        self._tick_at = None
        self.send_all(self.cluster.tick(EPOCH + self.kernel.now))
        self._plan_tick()

    # --- faults --------------------------------------------------------------------------------

    def cut(self, link):
        """End a connection; both ends notice."""
        if self.links.pop(link.number, None) is None:
            return
        for command in link.under_way:
            if (seconds := self.left_behind(link, command)) is not None:
                self.unread[link] = self.unread.get(link, 0) + 1
                self._read_later(link, command, seconds)
        if link not in self.unread:  # else that is what it reads last
            self.send_all(self.cluster.disconnected(link.number))
        link.arrived(None)

    def _read_later(self, link, command, seconds):
        """A server reads what is left of a connection, some time after it goes on."""
        going_on = max(self.kernel.now, self.frozen_until.get(self.servers[link.address], 0.0))
        self.kernel.at(going_on + seconds, lambda: self._read_unread(link, command, seconds))

    def _read_unread(self, link, command, seconds):
        if link not in self.unread:
            return
        if self.frozen_until.get(self.servers[link.address], 0.0) > self.kernel.now:
            self._read_later(link, command, seconds)
            return
        self._carry_out(link, command)
        self.unread[link] -= 1
        if not self.unread[link]:
            self._forget_unread(link)

    def _forget_unread(self, link):
        del self.unread[link]
        self.send_all(self.cluster.disconnected(link.number))

    def cut_all(self, wanted):
        for link in list(self.links.values()):
            if wanted(link):
                self.cut(link)

    def stop_broker(self, name):
        self._hang_up(name)
        self.cluster.stop_broker(name)

    def kill_broker(self, name):
        self._hang_up(name)
        self.cluster.kill_broker(name, EPOCH + self.kernel.now)

    def _hang_up(self, name):
        self.down.add(name)
        self.cut_all(lambda link: self.servers[link.address] == name)
        for link in [link for link in self.unread if self.servers[link.address] == name]:
            self._forget_unread(link)

    def start_broker(self, name):
        self.down.discard(name)
        self.cluster.start_broker(name)

    def freeze(self, server, seconds):
        until = self.kernel.now + seconds
        self.frozen_until[server] = max(self.frozen_until.get(server, 0.0), until)


class Link:
    """One connection, as `orderly.client.connection.Connection` looks from above."""

    def __init__(self, network, address, owner, awake):
        self.network = network
        self._awake = awake
        self._unheard_since = math.inf
        self.address = address
        self.owner = owner
        self.process = network.kernel.current.process
        self.number = 0
        self.sent_until = self.got_until = 0.0
        self.alive = True
        self.heard = False
        self.codes = {}
        self.under_way = deque()
        self._pending = {}
        self._next_look = math.inf
        self._ids = 0
        self._inbox = deque()
        self._reader = None
        self._idle = False  # whether the reader waits

    def start_reading(self):
        kernel = self.network.kernel
        self._reader = kernel.spawn(self._read, f"read-{self.address}", self.process)

    def call(self, command, timeout):
        kernel, caller, outcome = self.network.kernel, self.network.kernel.current, []

        def on_reply(result):
            outcome.append(result)
            kernel.unpark(caller)

        self.submit(command, timeout, on_reply)
        while not outcome:
            kernel.park()
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def submit(self, command, timeout, on_reply, attended=False):
        if not self.alive:
            raise ConnectionLost(f"the connection to {self.address} is closed", self.address)
        self._ids += 1
        self._unheard_since = min(self._unheard_since, self._awake.now())
        number = command.request_id = self._ids
        deadline = self.network.kernel.now + timeout
        self._pending[number] = on_reply, deadline
        self._look_at(deadline)
        self.network.to_server(self, command)
        return lambda: None  # here the reading task reads for everybody

    def _look_at(self, moment):
        """Look for what was not answered in time; few requests need a look of their own."""
        if moment < self._next_look:
            self._next_look = moment
            self.network.kernel.at(moment, lambda: self._look(moment))

    def _look(self, planned):
        if planned != self._next_look:
            return
        self._next_look, now = math.inf, self.network.kernel.now
        for number, (_, deadline) in self._pending.items():
            if deadline <= now:
                self._put(("late", number))
            else:
                self._look_at(deadline)

    def send_oneway(self, command):
        self._ids += 1
        command.request_id = self._ids
        self.network.to_server(self, command)

    def reply(self, command):
        self.network.to_server(self, command)

    def close(self):
        self.network.cut(self)

    def arrived(self, command):
        """What the server sent is here; None: the connection has ended."""
        self._put(("end", None) if command is None else ("command", command))

    def _put(self, item):
        self._inbox.append(item)
        if self._idle:
            self._idle = False
            self.network.kernel.unpark(self._reader)

    def _read(self):
        while self.alive:
            if not self._inbox:
                self._idle = True
                self.network.kernel.park()
            kind, value = self._inbox.popleft()
            self.heard |= kind == "command"
            if kind == "late":
                self._complete(value, RequestTimeout(f"{self.address} did not answer in time"))
                if self._awake.now() - self._unheard_since > _SILENCE:
                    self.close()
                continue
            if kind == "end":
                self._end()
                continue
            self._unheard_since = math.inf
            if value.is_response:
                self._complete(value.request_id, value)
            else:
                self.owner.on_request(self, value)

    def _complete(self, number, outcome):
        pending = self._pending.pop(number, None)
        if pending is not None:
            pending[0](outcome)

    def _end(self):
        self.alive = False
        for number in list(self._pending):
            self._complete(number, ConnectionLost(f"{self.address} is gone", self.address))
        self.owner.lost(self)


class Connections:
    """In place of `orderly.client.pool.Connections`; bound to a network by `bound_to`."""

    foreign = False
    proxies = frozenset()  # no proxy is simulated

    def __init__(
        self, network, *, awake, connect_timeout, max_frame, on_request, on_open, on_loss, security
    ):
        self._network = network
        self._awake = awake
        self.on_request = on_request
        self._on_open = on_open
        self._on_loss = on_loss
        self._links = {}
        self._opening = Lock(network.kernel)
        self._closed = False

    def check_process(self):
        """Nothing forks here."""

    def connected(self, address):
        link = self._links.get(address)
        return link if link is not None and link.alive else None

    def get(self, address):
        if (link := self.connected(address)) is not None:
            return link
        with self._opening:
            if (link := self.connected(address)) is not None:
                return link
            link = self._connect(address)
        self._on_open(link)
        return link

    def _connect(self, address):
        if self._closed:
            raise LifecycleError("the connections are closed")
        self._network.kernel.sleep(self._network.latency())
        link = Link(self._network, address, self, self._awake)
        if not self._network.open(link):
            raise ConnectFailed(f"nothing listens at {address}", address)
        self._links[address] = link
        link.start_reading()
        return link

    def lost(self, link):
        if self._links.get(link.address) is link:
            del self._links[link.address]
        if not self._closed:
            self._on_loss(link)

    def close(self):
        self._closed = True
        for link in list(self._links.values()):
            link.close()
