"""A broker that is killed forgets the offsets it had not written to its disk.

Here it writes none but at a clean stop, so that what it comes back with is no matter of luck.
"""

import contextlib
import threading
from functools import partial

import pytest

from orderly import Ack, Client, OrderlyConsumer, Park, ParkLimits
from tests.support.brokers import (
    SHORT,
    client_config,
    consumer_config,
    join,
    leasing_broker,
    set_group,
)
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.topics import finished_ahead
from tests.support.waiting import await_visible, eventually, patient_client, patient_producer

KEYS = ["a", "b", "c"]
NEVER = "600000"  # milliseconds

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def forgetful(orderly_broker):
    """A broker that flushes offsets at a clean stop only."""
    with leasing_broker(SHORT, broker_properties={"flushConsumerOffsetInterval": NEVER}) as broker:
        yield broker


@pytest.fixture
def client(forgetful, closing):
    return closing(patient_client(forgetful.namesrv))


@pytest.fixture
def producer(forgetful, closing):
    return closing(patient_producer(forgetful.namesrv))


@pytest.fixture
def topic(client):
    topic = unique("topic")
    client.admin.create_topic(topic, 1)
    return topic


@pytest.fixture
def start(forgetful, closing, topic):
    """Start a member; returns (consumer, recorder)."""

    def start(group, act=None, **settings):
        recorder = Recorder(act)
        client = closing(Client(client_config(SHORT, forgetful.namesrv)))
        config = consumer_config(SHORT, **settings)
        new = partial(OrderlyConsumer, group, recorder, client=client, config=config)
        consumer = join(new, topic)
        closing(contextlib.closing(consumer))
        eventually(lambda: consumer.assignment, within=30)
        return consumer, recorder

    return start


class Gate:
    """A handler that lets nothing through until it is opened."""

    def __init__(self):
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, messages, context):
        self.reached.set()
        return Ack() if self.open.is_set() else context.suspend(0.2)


def outage(broker, consumer):
    """Kill the broker and have it back once the consumer has lost its queues."""
    broker.kill_broker()
    eventually(lambda: not consumer.assignment, within=60)
    broker.restart_broker()


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_group_that_began_at_the_end_skips_nothing_that_came_since(
    order, forgetful, client, producer, topic, start
):
    send_numbers(producer, topic, KEYS, 5)
    await_visible(client)
    gate = Gate()
    consumer, seen = start(unique("group"), gate, order=order, consume_from="last")
    send_numbers(producer, topic, KEYS, 5, first=100)
    assert gate.reached.wait(20)
    outage(forgetful, consumer)
    send_numbers(producer, topic, KEYS, 5, first=105)
    gate.open.set()
    new = set(range(100, 110))
    eventually(lambda: all(new <= set(seen.numbers(key)) for key in KEYS), within=60)
    assert not any(set(range(5)) & set(seen.numbers(key)) for key in KEYS)


def test_by_key_another_process_knows_where_it_began(forgetful, client, producer, topic, start):
    send_numbers(producer, topic, KEYS, 5)
    await_visible(client)
    group, gate = unique("group"), Gate()
    consumer, _ = start(group, gate, order="key", consume_from="last", close_timeout=2.0)
    send_numbers(producer, topic, KEYS, 5, first=100)
    assert gate.reached.wait(20)
    outage(forgetful, consumer)
    consumer.close()
    _, seen = start(group, order="key", consume_from="last")
    new = list(range(100, 105))
    eventually(lambda: all(seen.numbers(key) == new for key in KEYS), within=60)


def test_what_was_finished_ahead_is_not_repeated_after_many_quick_commits(
    forgetful, client, producer, topic, start
):
    """Each key that is parked is a commit at once: six of them within the same second."""
    group = unique("group")
    queue = client.routes.refresh(topic).read_queues()[0]
    set_group(client, group)
    client.brokers.update_offset(group, queue, 0)
    forgetful.restart_broker()
    assert client.brokers.query_offset(group, queue) == 0, "it is on its disk"
    bad, stuck, gate = [f"bad-{n}" for n in range(6)], "stuck", Gate()

    def act(messages, context):
        key = messages[0].sharding_key
        if key == stuck:
            return gate(messages, context)
        return Park("made up") if key in bad else Ack()

    consumer, seen = start(group, act, order="key", parking=ParkLimits(ratio=1.0))
    sent = send_numbers(producer, topic, [*bad, stuck, *KEYS], 3)
    low = sent[len(bad)].queue_offset
    assert low == len(bad), "all before the stuck key is parked"
    waiting = {result.queue_offset for result in sent[low :: len(bad) + 1 + len(KEYS)]}
    done = {result.queue_offset for result in sent[low:]} - waiting
    eventually(lambda: client.brokers.query_offset(group, queue) == low, within=30)
    # Only what is on record before the broker dies may not come again.
    eventually(lambda: finished_ahead(client, group, queue) == done, within=30, every=0.05)
    assert all(seen.numbers(key) == [0, 1, 2] for key in KEYS)
    outage(forgetful, consumer)
    eventually(lambda: consumer.assignment, within=60)
    send_numbers(producer, topic, KEYS, 1, first=3)
    eventually(lambda: all(3 in seen.numbers(key) for key in KEYS), within=60)
    assert all(seen.numbers(key) == [0, 1, 2, 3] for key in KEYS)
    gate.open.set()
    eventually(lambda: {0, 1, 2} <= set(seen.numbers(stuck)), within=30)
