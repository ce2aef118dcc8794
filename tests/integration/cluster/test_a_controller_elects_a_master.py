"""Controller mode: the master of a broker set dies under traffic, and a slave takes its place."""

import pytest

from orderly import Client
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.topics import decode_topic_configs
from orderly.testing import settings
from orderly.testing.ports import free_port
from orderly.testing.readiness import StartedBroker, wait_ready
from orderly.testing.site import Site
from tests.support.brokers import SHORT
from tests.support.consuming import unique
from tests.support.traffic import Traffic
from tests.support.waiting import eventually
from tests.versions.__main__ import jars_of

# The controller needs one jar more than the embedded broker has.
HESSIAN = (
    "3661df5d1a3c9741682affd676e3ca7aa3175cd5f04ad456bc671b671721f3e9 411760"
    " com/alipay/sofa/hessian/3.3.6/hessian-3.3.6.jar\n"
)
NAME = "broker-a"
REPLICAS = 3
CONTROLLER = {
    "enableControllerInNamesrv": "true",
    "controllerDLegerGroup": "group",
    "controllerDLegerSelfId": "n0",
    "scanNotActiveBrokerInterval": "1000",  # ms, as all here
    "scanInactiveMasterInterval": "1000",
}
REPLICA = {
    "enableControllerMode": "true",
    "brokerId": "-1",  # the controller says which
    "controllerHeartBeatTimeoutMills": "3000",
    "syncControllerMetadataPeriod": "1000",
    "checkSyncStateSetPeriod": "1000",
    "syncBrokerMetadataPeriod": "1000",
    # A send is acknowledged once all that may become master have it, and two at least.
    "allAckInSyncStateSet": "true",
    "minInSyncReplicas": "2",
}


class BrokerSet:
    """Three brokers of one name, and a name server with the controller that elects their master."""

    def __init__(self, jars):
        lease = f"-Drocketmq.broker.rebalance.lockMaxLiveTime={round(SHORT * 1000)}"
        self._site = Site(java_options=[lease], jars=jars)
        self.namesrv = ""
        self._servers = {}  # by address

    def __enter__(self):
        self._site.start(self._build, ours=True)
        self._client = Client(namesrv=self.namesrv)
        return self

    def __exit__(self, *_):
        self._client.close()
        self._site.stop()

    def addresses(self):
        """Of the replicas that the name server knows: by broker id, the master's is 0."""
        found = self._client.admin.cluster().brokers.get(NAME)
        return {} if found is None else dict(found.addresses)

    def master(self):
        """Its address; None while none is elected."""
        return self.addresses().get(0)

    def agrees(self):
        """Whether all replicas are there and know the topics that the master knows."""
        found = self.addresses()
        known = [self._topics(address) for address in found.values()]
        return len(found) == REPLICAS and 0 in found and known.count(known[0]) == REPLICAS

    def _topics(self, address):
        command = request(RequestCode.GET_ALL_TOPIC_CONFIG)
        reply = self._client.connections.get(address).call(command, 10)
        return decode_topic_configs(reply.body).topics.keys() - {NAME}

    def kill(self, address):
        self._servers[address].process.kill()

    def restart(self, address):
        self._servers[address].restart()

    def _build(self):
        self._servers.clear()
        port, controller, *ports = free_port(), free_port(), *(free_port(-2, 1) for _ in range(3))
        self.namesrv = f"127.0.0.1:{port}"
        home = self._site.directory / "namesrv"
        own = settings.name_server_properties(home, port) | CONTROLLER
        own["controllerDLegerPeers"] = f"n0-127.0.0.1:{controller}"
        own["controllerStorePath"] = str(home / "controller")
        self._site.add("the name server", settings.NAME_SERVER, own, home)
        extra = REPLICA | {"controllerAddr": f"127.0.0.1:{controller}"}
        for number, port in enumerate(ports):
            home = self._site.directory / f"{NAME}-{number}"
            own = settings.broker_properties(home, NAME, port, self.namesrv, extra)
            name = f"replica {number}"
            self._servers[f"127.0.0.1:{port}"] = self._site.add(name, settings.BROKER, own, home)
            if number == 0:  # it is the first master
                started = StartedBroker(self.namesrv, NAME, f"127.0.0.1:{port}")
                wait_ready(started, self._site.problem, self._site.report)


@pytest.fixture
def broker_set(orderly_broker, tmp_path):  # there is Java, and processes may be started
    jars = tmp_path / "jars.txt"
    jars.write_text(jars_of("5.5.0").read_text() + HESSIAN)
    with BrokerSet(jars) as running:
        eventually(lambda: len(running.addresses()) == REPLICAS, within=60)
        yield running


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("order", ["queue", "key"])
def test_two_masters_are_killed_one_after_the_other_and_nothing_is_lost_or_reordered(
    broker_set, order
):
    topic, masters = unique("topic"), [broker_set.master()]
    with Client(namesrv=broker_set.namesrv) as client:
        client.admin.create_topic(topic, 8)
    with Traffic(
        None, broker_set.namesrv, SHORT, unique("group"), topic, pause=0.003, order=order
    ) as traffic:
        traffic.goes_on(300, within=60)
        for _ in range(2):
            eventually(broker_set.agrees, within=60, every=1)  # slaves ask every 10 s
            broker_set.kill(masters[-1])
            eventually(lambda: broker_set.master() not in (None, masters[-1]), within=60)
            traffic.goes_on(300, within=60)
            broker_set.restart(masters[-1])
            masters.append(broker_set.master())
            traffic.goes_on(300, within=60)
        traffic.finish(within=90)
        verdict = traffic.judged()
    assert masters[0] != masters[1] != masters[2]
    assert (verdict.lost, verdict.disorder, verdict.unknown) == (0, 0, 0), verdict
    assert verdict.ok or order == "key", verdict  # by key messages of a queue pass each other
