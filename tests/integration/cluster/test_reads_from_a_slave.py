"""Who is behind reads from the slave; locks and offsets stay the master's, also when it is down."""

import contextlib
import threading
import time
from functools import partial

import pytest

from orderly import ConsumeResult, OrderlyConsumer
from orderly.consumer.hooks import ConsumerHooks
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.topics import GetTopicConfig
from tests.support.brokers import EAST, REPLICATED, SHORT, consumer_config, join, place
from tests.support.consuming import Recorder, first_deliveries, send_numbers
from tests.support.waiting import eventually, patient_client, patient_producer

KEYS = [f"k{i}" for i in range(24)]
EACH = 40  # messages of a key
MASTERS_OWN = (
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
)


def knows_topic(client, address):
    header = GetTopicConfig(topic=REPLICATED)
    reply = client.connections.get(address).call(request(header.code, to_ext(header)), 5)
    return reply.code == ResponseCode.SUCCESS


@pytest.fixture(scope="module")
def backlog(_whole_cluster):
    """Messages that are on the slave as well; returns what was sent."""
    cluster = _whole_cluster
    with (
        patient_client(cluster.namesrv) as client,
        patient_producer(client=client) as producer,
    ):
        sent = send_numbers(producer, REPLICATED, KEYS, EACH)
        eventually(lambda: knows_topic(client, cluster.slave.address), within=120, every=0.5)
    cluster.cluster.wait_replicated(timeout=60)
    return sent


def pulls_at_slave(cluster):
    return cluster.seen(cluster.slave, RequestCode.PULL_MESSAGE)


def test_a_backlog_comes_from_the_slave_in_order_and_is_committed_at_the_master(
    cluster, client, connect, group, backlog
):
    before = pulls_at_slave(cluster)
    seen = Recorder()
    config = consumer_config(SHORT, lock_trust=SHORT - 1)  # on a busy machine renewals are late
    new = partial(OrderlyConsumer, group, seen, client=connect(), config=config)
    with contextlib.closing(join(new, REPLICATED)):
        eventually(lambda: len(seen.deliveries) >= len(backlog))
    assert pulls_at_slave(cluster) > before
    assert all(seen.numbers(key) == list(range(EACH)) for key in KEYS)
    for queue in {result.queue for result in backlog}:
        of_queue = sum(result.queue == queue for result in backlog)
        assert client.brokers.query_offset(group, queue) == of_queue
    assert not any(cluster.seen(cluster.slave, code) for code in MASTERS_OWN)


def test_without_its_master_a_queue_is_read_until_the_trust_in_its_lock_ends(
    cluster, connect, closing, group, backlog
):
    """As in Java: the lock can be renewed at a master only, and might be somebody else's."""
    lost, of_east, hurry = set(), [], threading.Event()

    def act(messages, context):
        if messages[0].queue.broker_name == EAST:
            of_east.append(time.monotonic())
        hurry.wait(0.2)  # so that not all is done when the trust ends, also if that is late
        return ConsumeResult.SUCCESS

    seen = Recorder(act)
    hooks = ConsumerHooks(lost=lambda queues: lost.update(map(place, queues)))
    config = consumer_config(SHORT, pull_threshold=8)  # little is cached
    new = partial(OrderlyConsumer, group, seen, client=connect(), config=config, hooks=hooks)
    consumer = join(new, REPLICATED)
    closing(contextlib.closing(consumer))
    east = {(EAST, number) for number in range(4)}
    eventually(lambda: east <= set(map(place, consumer.assignment)))
    cluster.master.kill()
    killed, pulls = time.monotonic(), pulls_at_slave(cluster)
    eventually(lambda: lost >= east)
    assert pulls_at_slave(cluster) > pulls
    begun = list(of_east)
    assert max(begun) - killed < SHORT, "later the lock may be somebody else's"
    assert len(begun) < sum(result.queue.broker_name == EAST for result in backlog)
    cluster.master.restart()
    hurry.set()
    eventually(lambda: all(EACH - 1 in seen.numbers(key) for key in KEYS), within=90)
    assert all(first_deliveries(seen.numbers(key)) == list(range(EACH)) for key in KEYS)
    assert not any(cluster.seen(cluster.slave, code) for code in MASTERS_OWN)
