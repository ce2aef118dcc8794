"""One group consumes several topics; what happens to one of them is nothing to the others."""

import pytest

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from orderly.errors import TopicNotFound
from orderly.model import MessageQueue
from orderly.testing import FakeBroker
from tests.support.brokers import delete_topic
from tests.support.consuming import send_numbers, unique
from tests.support.topics import delete_at
from tests.support.waiting import eventually, patient_client

KEYS = [f"a{i}" for i in range(8)]
OTHER_KEYS = [f"b{i}" for i in range(8)]


@pytest.fixture
def other(orderly_topic):
    return orderly_topic(queues=2)


def queues_of(group, topic):
    return [q for consumer in group.consumers for q in consumer.assignment if q.topic == topic]


@pytest.fixture
def start_both(start_group, other):
    """Start all members and subscribe them to the other topic while they run."""

    def start(**settings):
        group = start_group(**settings)
        for consumer in group.consumers:
            consumer.subscribe(other)
        eventually(lambda: len(set(queues_of(group, other))) == 2, within=20)
        return group

    return start


def test_each_topic_keeps_its_own_order(producer, topic, other, start_both):
    send_numbers(producer, topic, KEYS, 5)
    send_numbers(producer, other, OTHER_KEYS, 5)
    seen = start_both().seen
    eventually(lambda: len(seen.deliveries) >= 80, within=20)
    assert seen.by_key() == {key: list(range(5)) for key in KEYS + OTHER_KEYS}


def test_unsubscribing_saves_and_unlocks_at_once_and_the_other_topic_goes_on(
    producer, topic, other, client, group, start_both
):
    members = start_both(commit_interval=60, rebalance_interval=60)
    sent = send_numbers(producer, other, OTHER_KEYS, 3)
    eventually(lambda: len(members.seen.deliveries) == 24, within=20)
    kept = queues_of(members, topic)
    for consumer in members.consumers:
        consumer.unsubscribe(other)
    assert queues_of(members, other) == []
    queues = [MessageQueue(other, "broker-a", number) for number in range(2)]

    def unlocked():
        return client.brokers.lock_queues(group, "broker-a", queues) == frozenset(queues)

    eventually(unlocked, within=20)
    for queue in queues:
        messages = sum(result.queue == queue for result in sent)
        assert client.brokers.query_offset(group, queue) == messages
    send_numbers(producer, other, OTHER_KEYS, 1, first=3)
    send_numbers(producer, topic, KEYS, 1)
    eventually(lambda: len(members.seen.deliveries) >= 32, within=20)
    assert members.seen.by_key() == {k: [0, 1, 2] for k in OTHER_KEYS} | {k: [0] for k in KEYS}
    assert queues_of(members, topic) == kept


def by_an_operator(client, members, topic):
    """Members still know the topic's route, and go on by that."""
    delete_topic(client, topic)


def by_the_program(client, members, topic):
    """Members forget the route: a round cannot even ask for the topic's queues."""
    for consumer in members.consumers:
        consumer._client.housekeeping.delete_topic(topic)


@pytest.mark.parametrize("delete", [by_an_operator, by_the_program])
def test_a_deleted_topic_does_not_stop_the_others(
    delete, producer, topic, other, client, start_member, start_both
):
    members = start_both(route_interval=0.2, rebalance_interval=0.2)
    delete(client, members, other)
    first = members.consumers[0]
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(members.seen.deliveries) == 24, within=20)
    start_member(recorder=members.seen)
    eventually(lambda: len(queues_of(members, topic)) < 4, within=20)
    send_numbers(producer, topic, KEYS, 1, first=3)
    eventually(lambda: len(members.seen.deliveries) >= 32, within=20)
    assert members.seen.by_key() == {key: list(range(4)) for key in KEYS}
    first.unsubscribe(other)
    eventually(lambda: {e.queue.topic for e in first.explain()} == {topic}, within=20)


@pytest.fixture
def two_brokers(closing):
    return closing(FakeBroker(brokers=("broker-a", "broker-b")))


def test_a_topic_that_is_deleted_at_one_broker_is_given_back_there(two_brokers, closing, group):
    """The topic's route does not say any more where that broker is."""
    moved, kept = (two_brokers.create_topic(unique(name), 1) for name in ("moved", "kept"))
    client = closing(patient_client(two_brokers.namesrv, route_interval=0.2))
    config = ConsumerConfig(rebalance_interval=0.2)
    consumer = OrderlyConsumer(group, lambda *_: Ack(), client=client, config=config)
    closing(consumer.subscribe(moved).subscribe(kept))
    eventually(lambda: len(consumer.assignment) == 4, within=20)
    delete_at(two_brokers, "broker-a", moved)
    at_a = MessageQueue(moved, "broker-a", 0)
    other = closing(patient_client(two_brokers.namesrv))
    other.routes.get(kept)  # so that it knows the way, too

    def unlocked():
        return other.brokers.lock_queues(group, "broker-a", [at_a]) == {at_a}

    eventually(unlocked, within=10)
    assert len(consumer.assignment) == 3


def test_an_unknown_topic_is_refused_and_leaves_everything_as_it_was(producer, topic, start_group):
    group = start_group()
    with pytest.raises(TopicNotFound):
        group.consumers[0].subscribe(unique("nowhere"))
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(group.seen.deliveries) >= 24, within=20)
    assert group.settled(4)
    assert {e.queue.topic for e in group.consumers[0].explain()} == {topic}
