"""Base scans of two real brokers, one of them behind a proxy: requests, traces, and outages."""

import contextlib
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly import ConsumerConfig, OrderlyConsumer
from orderly.client.pipeline import RequestLimits
from orderly.monitoring.backlog.reading import NEVER, NOT_READ
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.frame import request
from orderly.testing import EmbeddedBroker
from orderly.testing.ports import free_port
from tests.support.brokers import Proxy
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.waiting import PATIENCE, eventually, patient_client, patient_producer

pytestmark = pytest.mark.usefixtures("orderly_broker")  # whether there is a broker, and Java

# Never: pulls, commits, heartbeats, locks, statistics of all groups, settings that make a group
FORBIDDEN = {Code.PULL_MESSAGE, Code.UPDATE_CONSUMER_OFFSET, Code.HEART_BEAT, 41, 34, 317, 352}
PATIENT = ScanSettings(deadline=60.0, limits=RequestLimits(patience=10.0))
SHORT = ScanSettings(
    deadline=60.0, limits=RequestLimits(patience=5.0)
)  # where a broker keeps silent, and the other may be slow


@pytest.fixture(scope="module")
def two():
    """Two brokers of one cluster; clients reach broker-b through `proxy` only."""
    port, own = free_port(-2, 1), free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(EmbeddedBroker())
        proxy = stack.enter_context(Proxy(f"127.0.0.2:{port}", f"127.0.0.1:{port}"))
        stack.enter_context(
            EmbeddedBroker(
                namesrv_port=own,
                broker_port=port,
                broker_name="broker-b",
                broker_properties={
                    "namesrvAddr": f"127.0.0.1:{own};{first.namesrv}",
                    "brokerIP1": "127.0.0.2",
                },
            )
        )
        client = stack.enter_context(patient_client(first.namesrv))
        eventually(lambda: len(client.admin.cluster().brokers) == 2)
        yield SimpleNamespace(namesrv=first.namesrv, proxy=proxy, client=client)


@pytest.fixture
def proxy(two):
    """Whatever a test did to it ends with the test."""
    yield two.proxy
    two.proxy.heal()


@pytest.fixture
def client(two):
    with patient_client(two.namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def consumed(two):
    """(group, topic): all 20 messages of 2 queues a broker are consumed, then 8 more came."""
    group, topic = unique("group"), unique("topic")
    two.client.admin.create_topic(topic, 2)
    seen, first = Recorder(), ConsumerConfig(consume_from="first")
    with (
        patient_producer(two.namesrv, layout="loose") as producer,
        patient_client(two.namesrv) as own,
    ):
        keys = [f"key-{number}" for number in range(20)]
        with OrderlyConsumer(group, seen, client=own, config=first).subscribe(topic):
            send_numbers(producer, topic, keys, 1)
            eventually(lambda: len(seen.deliveries) >= 20)
        send_numbers(producer, topic, keys[:8], 1)
    queues = two.client.routes.get(topic).read_queues()
    eventually(lambda: sum(map(two.client.brokers.max_offset, queues)) == 28)  # they can be seen
    return group, topic


@pytest.fixture
def collector(client):
    return lambda settings=PATIENT, **selection: Collector(client, Selection(**selection), settings)


def delete_group(client, group):
    """As mqadmin deleteSubGroup with removeOffset."""
    for broker in client.admin.cluster().brokers.values():
        header = {"groupName": group, "cleanOffset": "true", "removeOffset": "true"}
        command = request(Code.DELETE_SUBSCRIPTIONGROUP, header)
        assert client.connections.get(broker.master).call(command, PATIENCE).code == 0


def backlog(scan, pair):
    """Of all queues of a pair together."""
    maximum = scan.topics[pair[1]].maximum
    return sum(high - low for high, low in zip(maximum, scan.committed[pair], strict=True))


def test_the_backlog_of_both_brokers_is_read(consumed, collector):
    scan = collector().scan()
    assert backlog(scan, consumed) == 8
    assert [broker.error for broker in scan.brokers.values()] == [None, None]
    assert all(broker.retention for broker in scan.brokers.values())
    assert all(reading.minimum for reading in scan.topics.values())


def test_cold_safe_reads_the_same_offsets(consumed, collector):
    warm = collector(groups=consumed[:1]).scan()
    cold = collector(replace(PATIENT, cold_safe=True), groups=consumed[:1]).scan()
    assert cold.committed == warm.committed
    assert cold.topics[consumed[1]].maximum == warm.topics[consumed[1]].maximum
    assert cold.topics[consumed[1]].minimum == warm.topics[consumed[1]].minimum
    assert Code.GET_TOPIC_STATS_INFO not in cold.requests


def test_a_scan_asks_as_often_as_there_are_topics_and_four_times_more(
    two, proxy, consumed, collector
):
    others = [unique("group") for _ in range(3)]
    for group in others:  # more groups, no more requests
        with OrderlyConsumer(group, print, namesrv=two.namesrv).subscribe(consumed[1]):
            pass
    collect = collector()
    topics = [t for t in collect.scan().topics if t in two.client.admin.topics()]
    proxy.seen.clear()
    scan = collect.scan()
    asked = dict(proxy.seen)
    assert asked.pop(Code.GET_TOPIC_STATS_INFO) <= len(topics)
    assert asked == {
        Code.GET_ALL_CONSUMER_OFFSET: 1,
        Code.GET_ALL_TOPIC_CONFIG: 1,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: 1,
    }
    assert sum(proxy.seen.values()) == scan.brokers["broker-b"].requests
    assert not FORBIDDEN & proxy.seen.keys()


def test_a_scan_leaves_no_group_and_no_topic_behind(two, consumed, collector):
    before = two.client.admin.groups(), two.client.admin.topics()
    collector().scan()
    collector(groups=(unique("nobody"),), topics=(consumed[1],)).scan()
    collector(replace(PATIENT, cold_safe=True)).scan()
    assert (two.client.admin.groups(), two.client.admin.topics()) == before


def test_a_topic_without_any_group_is_asked_for_by_nobody_and_shown_by_name(
    two, consumed, collector
):
    lonely = unique("lonely")
    two.client.admin.create_topic(lonely, 1)
    assert lonely not in collector().scan().topics
    named = collector(groups=consumed[:1], topics=(lonely,)).scan()
    assert named.committed == {(consumed[0], lonely): (NEVER, NEVER)}


def test_a_group_that_is_deleted_is_gone_from_the_next_scan(two, consumed, collector):
    group = unique("group")
    with OrderlyConsumer(group, print, namesrv=two.namesrv).subscribe(consumed[1]):
        pass
    collect = collector()
    assert group in collect.scan().groups
    delete_group(two.client, group)
    scan = collect.scan()
    assert group not in scan.groups
    assert not [pair for pair in scan.committed if pair[0] == group]


def test_a_broker_that_hangs_is_unknown_and_the_rest_fresh(two, proxy, consumed, collector):
    collect = collector(SHORT)
    collect.scan()
    proxy.swallow()
    scan = collect.scan()
    assert scan.seconds < 20.0, "of the minute that a scan may take"
    assert scan.brokers["broker-a"].error is None
    assert "did not answer" in scan.brokers["broker-b"].error
    assert NOT_READ not in scan.committed[consumed][:2]
    assert scan.committed[consumed][2:] == (NOT_READ, NOT_READ)
    assert collect.scan().brokers["broker-b"].requests == 1  # a probe
    proxy.heal()
    assert NOT_READ not in eventually(lambda: collect.scan().committed[consumed])


def test_a_broker_that_hangs_is_found_in_one_scan_alone(proxy, consumed, collector):
    """Without a memory its queues are known from the name server."""
    proxy.swallow()
    scan = collector(SHORT, groups=consumed[:1]).scan()
    assert scan.committed[consumed][2:] == (NOT_READ, NOT_READ)
    assert scan.topics[consumed[1]].maximum[2:] == (NOT_READ, NOT_READ)


def test_a_broker_that_dies_in_the_middle_leaves_the_rest_fresh(proxy, consumed, collector):
    collect = collector()
    collect.scan()
    proxy.lose(Code.GET_TOPIC_STATS_INFO, times=1000)

    def die():
        eventually(lambda: proxy.dropped[Code.GET_TOPIC_STATS_INFO] > 0)
        proxy.refuse()
        proxy.cut()

    dying = threading.Thread(target=die)
    dying.start()
    scan = collect.scan()
    dying.join()
    topic = scan.topics[consumed[1]]
    assert "nothing listens" in scan.brokers["broker-b"].error, "it was asked once more"
    assert topic.maximum[2:] == (NOT_READ, NOT_READ)
    assert NOT_READ not in topic.maximum[:2]
    assert NOT_READ not in scan.committed[consumed]  # read before it died
