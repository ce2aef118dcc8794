"""One broker hangs, and all handlers of its queues ask it for more time: the other goes on.

Its locks are renewed, its messages handled, its offsets committed and its queues handed on, however
long the first one is silent.
"""

import threading
import time

import pytest
import structlog

from orderly import Client, ConsumerConfig, ConsumeResult, OrderlyConsumer
from orderly.errors import OrderlyError
from orderly.ordering.allocation import by_circle
from orderly.testing import FakeBroker
from tests.support.consuming import first_deliveries, send_numbers, unique
from tests.support.waiting import eventually, patient_client, patient_producer

HANGS, GOES_ON = "broker-a", "broker-b"
QUEUES = 20  # of each broker: as many as there are threads
KEYS = [f"k{number}" for number in range(20 * QUEUES)]
TRUST = 12.0  # seconds; on a busy machine rounds are late


class Handler:
    """At the broker that hangs it extends the lease, at the other one it notes what it gets."""

    def __init__(self):
        self.waiting, self.noted = [], {}
        self.gather, self.hangs = threading.Event(), threading.Event()

    def __call__(self, messages, context):
        queue, number = context.message_queue, int(messages[0].body)
        if queue.broker_name == GOES_ON:
            self.noted.setdefault(messages[0].sharding_key, []).append(number)
            return ConsumeResult.SUCCESS
        if not self.gather.is_set():
            return ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT
        self.waiting.append(queue)
        assert self.hangs.wait(120)
        try:
            context.extend()
        except OrderlyError:
            return ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return ConsumeResult.SUCCESS


@pytest.fixture
def brokers(closing):
    return closing(FakeBroker(brokers=(HANGS, GOES_ON)))


@pytest.fixture
def connect(brokers, closing):
    return lambda: closing(Client(namesrv=brokers.namesrv))


@pytest.fixture
def setting(brokers, connect, closing):
    """A topic with messages in all queues: (topic, producer, keys at the broker that goes on)."""
    topic, producer = unique("topic"), closing(patient_producer(client=connect()))
    brokers.create_topic(topic, QUEUES)
    results = send_numbers(producer, topic, KEYS, 1)
    assert len({result.queue for result in results}) == 2 * QUEUES
    homes = {key: result.queue for key, result in zip(KEYS, results, strict=True)}
    one_each = {queue: key for key, queue in homes.items() if queue.broker_name == GOES_ON}
    return topic, producer, sorted(one_each.values())


@pytest.fixture
def join(connect, closing, group, setting):
    def join(handler, **settings):
        config = ConsumerConfig(
            consume_from="first",
            lock_trust=TRUST,
            lock_interval=2.0,
            rebalance_interval=2.0,
            commit_interval=0.5,
            suspend=0.01,
            **settings,
        )
        parts = {"client": connect(), "config": config, "allocate": by_circle}
        consumer = OrderlyConsumer(group, handler, **parts)
        return closing(consumer.subscribe(setting[0]))

    return join


def at(broker, consumer):
    return {queue for queue in consumer.assignment if queue.broker_name == broker}


@pytest.mark.slow
@pytest.mark.parametrize("order", ["queue", "key"])
def test_its_queues_stay_and_are_handled_and_committed_and_handed_on(
    order, brokers, setting, join, client_of_test, group
):
    topic, producer, keys = setting
    handler = Handler()
    with structlog.testing.capture_logs() as events:
        member = join(handler, order=order)
        eventually(lambda: len(member.assignment) == 2 * QUEUES, within=60)
        eventually(lambda: handler.noted.keys() >= set(keys), within=60)
        handler.gather.set()
        eventually(lambda: len(handler.waiting) >= QUEUES, within=60)
        brokers.pause_broker(HANGS)
        since, number = time.monotonic(), 1
        handler.hangs.set()
        while time.monotonic() - since < TRUST + 4 or number <= 8:
            send_numbers(producer, topic, keys, 1, first=number)
            eventually(lambda n=number: all(n in handler.noted[key] for key in keys), within=60)
            number += 1
        lost = lambda: {e["broker"] for e in events if e["event"] == "lock.lost"}  # noqa: E731
        eventually(lost)
        assert lost() == {HANGS}
        assert len(at(GOES_ON, member)) == QUEUES
        for key in keys:  # a message that was sent again may be stored twice
            assert first_deliveries(handler.noted[key]) == list(range(number))
        for queue in at(GOES_ON, member):
            eventually(lambda q=queue: all_committed(client_of_test, group, q), within=60)
        newcomer = join(handler, order=order)
        eventually(lambda: len(at(GOES_ON, newcomer)) == QUEUES / 2, within=60)
        eventually(lambda: len(at(GOES_ON, member)) == QUEUES / 2, within=60)
        brokers.resume_broker(HANGS)


@pytest.fixture
def client_of_test(brokers, closing):
    return closing(patient_client(brokers.namesrv))


def all_committed(client, group, queue):
    end, stored = client.brokers.max_offset(queue), client.brokers.query_offset(group, queue)
    return stored is not None and end == stored
