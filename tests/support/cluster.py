"""A real cluster behind proxies: two masters in two machine rooms, and a slave of the first."""

import contextlib

from orderly import Client
from orderly.testing import EmbeddedCluster
from tests.support.leases import SHORT
from tests.support.proxy import Proxy

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
