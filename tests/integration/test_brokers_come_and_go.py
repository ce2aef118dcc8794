"""A broker joins the cluster, dies, and comes back: its queues are taken, given up, taken again."""

import threading
import time

import pytest
from structlog.testing import capture_logs

from orderly import Client, ClientConfig, ConsumerConfig, OrderlyConsumer
from orderly.client.broker import USUAL_PULL
from orderly.testing import EmbeddedBroker
from orderly.testing.ports import free_port
from tests.support.brokers import set_topic
from tests.support.consuming import Group, Recorder, send_numbers, unique
from tests.support.waiting import eventually, patient_client, patient_producer

pytestmark = pytest.mark.usefixtures("orderly_broker")  # whether there is a broker, and Java

KEYS = [f"aircraft-{i}" for i in range(12)]


@pytest.fixture
def second_broker(closing):
    """Start another broker of the first one's cluster: it registers at both name servers."""

    def start(first):
        port = free_port()
        both = f"127.0.0.1:{port};{first.namesrv}"
        return closing(
            EmbeddedBroker(
                namesrv_port=port,
                broker_name="broker-b",
                broker_properties={"namesrvAddr": both},
            )
        )

    return start


def brokers_of(group):
    return {queue.broker_name for member in group.consumers for queue in member.assignment}


def test_order_and_offsets_survive_a_broker_that_comes_dies_and_comes_back(closing, second_broker):
    first = closing(EmbeddedBroker())
    client = closing(patient_client(first.namesrv, route_interval=1))
    topic, group_name = unique("topic"), unique("group")
    client.admin.create_topic(topic, 2, broker="broker-a")
    producer = closing(patient_producer(client=client, layout="loose"))
    seen = Recorder()

    def member():
        # "last": what is sent to a queue before it is discovered must not be skipped
        config = ConsumerConfig(consume_from="last", rebalance_interval=1, lock_trust=21)
        own = closing(patient_client(first.namesrv, route_interval=1))
        consumer = OrderlyConsumer(group_name, seen, client=own, config=config)
        return closing(consumer.subscribe(topic))

    group = Group([member(), member()], seen)
    eventually(lambda: group.settled(2), within=30)

    second = second_broker(first)
    set_topic(client, topic, read=2, write=2)  # on both brokers; the library refuses to grow
    client.routes.refresh(topic)
    sent = send_numbers(producer, topic, KEYS, 5)
    assert {result.queue.broker_name for result in sent} == {"broker-a", "broker-b"}
    eventually(lambda: group.settled(4), within=30)
    eventually(lambda: len(seen.deliveries) == 60, within=30)

    second.kill_broker()
    eventually(lambda: brokers_of(group) == {"broker-a"}, within=60)
    client.routes.refresh(topic)
    send_numbers(producer, topic, KEYS, 5, first=5)  # "loose": the keys of b go on at a
    eventually(lambda: len(seen.deliveries) == 120, within=30)

    second.restart_broker()
    eventually(lambda: group.settled(4), within=60)
    client.routes.refresh(topic)
    send_numbers(producer, topic, KEYS, 5, first=10)
    eventually(lambda: all(14 in seen.numbers(key) for key in KEYS), within=30)
    assert {key: list(dict.fromkeys(numbers)) for key, numbers in seen.by_key().items()} == {
        key: list(range(15)) for key in KEYS
    }
    repeats = len(seen.deliveries) - 180
    assert repeats <= 60, "only what b's death left uncommitted may come again"
    group.close()  # before the brokers go: a close waits for the last commit


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_member_that_comes_after_a_broker_waits_for_the_one_that_knows_its_group(
    closing, second_broker, order
):
    """What the new broker has got meanwhile is not skipped, although the other one is silent."""
    first = closing(EmbeddedBroker())
    client = closing(patient_client(first.namesrv, route_interval=1))
    topic, group_name, seen = unique("topic"), unique("group"), Recorder()
    client.admin.create_topic(topic, 2, broker="broker-a")

    def member(consume_from):
        config = ConsumerConfig(order=order, consume_from=consume_from, rebalance_interval=1)
        own = closing(Client(ClientConfig(namesrv=first.namesrv, request_timeout=5.0)))
        consumer = OrderlyConsumer(group_name, seen, client=own, config=config)
        return closing(consumer.subscribe(topic))

    with patient_producer(first.namesrv) as producer:
        send_numbers(producer, topic, KEYS, 2)
    former = member("first")
    eventually(lambda: len(seen.deliveries) == 2 * len(KEYS), within=60)
    former.close()
    second = second_broker(first)
    set_topic(client, topic, read=2, write=2)
    eventually(lambda: len(client.routes.refresh(topic).read_queues()) == 4)
    with patient_producer(first.namesrv) as producer:
        sent = send_numbers(producer, topic, KEYS, 2, first=2)
    assert {result.queue.broker_name for result in sent} == {"broker-a", second.broker_name}
    first.pause_broker()
    try:
        with capture_logs() as events:
            fresh = member("last")
            eventually(lambda: "queue.start_unknown" in {e["event"] for e in events}, within=90)
        assert fresh.assignment == ()
    finally:
        first.resume_broker()
    eventually(lambda: len(seen.deliveries) >= 4 * len(KEYS), within=90)
    assert seen.by_key() == {key: [0, 1, 2, 3] for key in KEYS}
    fresh.close()  # before the brokers go


@pytest.mark.parametrize("seconds", [0.0, 35.0], ids=["at once", "longer than a lock is trusted"])
def test_a_member_is_not_ready_while_its_broker_is_away_for_long_and_does_not_flap(
    seconds, closing
):
    broker = closing(EmbeddedBroker())
    client = closing(patient_client(broker.namesrv))
    topic = unique("topic")
    client.admin.create_topic(topic, 2)
    config = ConsumerConfig(consume_from="first")
    member = OrderlyConsumer(unique("group"), Recorder(), namesrv=broker.namesrv, config=config)
    closing(member.subscribe(topic))
    eventually(lambda: member.health().ready)
    seen, over = [], threading.Event()

    def watch():
        while not over.wait(0.02):
            ready = member.health().ready
            if seen[-1:] != [ready]:
                seen.append(ready)

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.monotonic()
    try:
        broker.kill_broker()
        time.sleep(seconds)
        broker.restart_broker()
        away = time.monotonic() - began
        eventually(lambda: time.monotonic() - began > away + 8)
        eventually(lambda: member.health().ready, within=40)
    finally:
        over.set()
        watching.join()
    assert seen[-1]
    assert seen.count(False) <= 2, "its pulls, and perhaps later its locks"
    if away > USUAL_PULL:
        assert False in seen
    assert member.health().live
