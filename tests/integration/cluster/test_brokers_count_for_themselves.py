"""Two masters: a topic's queues are on both; each has offsets, locks and members of its own."""

from collections import Counter

import pytest

from orderly import MessageQueue, OrderlyConsumer
from orderly.errors import ConfigError
from orderly.ordering.allocation import averagely
from orderly.ordering.allocation_rooms import machine_room, machine_room_nearby
from orderly.protocol.codes import RequestCode
from tests.support.brokers import EAST, SHORT, WEST, consumer_config
from tests.support.consuming import Group, Recorder, send_numbers
from tests.support.waiting import eventually, patient_client, patient_producer

KEYS = [f"k{i}" for i in range(24)]


@pytest.fixture
def connect(cluster, closing):
    """No broker fails here: every answer is waited for."""
    return lambda: closing(patient_client(cluster.namesrv))


@pytest.fixture
def member(connect, closing, topic, group):
    """Start a member: `member(handler, client, **settings)`."""

    def start(handler, client=None, **settings):
        config, client = consumer_config(SHORT, lock_trust=SHORT - 1), client or connect()
        consumer = OrderlyConsumer(group, handler, client=client, config=config, **settings)
        return closing(consumer.subscribe(topic))

    return start


def brokers_of(consumer):
    return {queue.broker_name for queue in consumer.assignment}


def test_keys_are_spread_over_both_and_offsets_are_kept_where_the_queue_is(
    cluster, client, closing, member, topic, group
):
    producer = closing(patient_producer(client=client))
    assert [(q.broker_name, q.queue_id) for q in producer.queues(topic)] == [
        (name, n) for name in (EAST, WEST) for n in range(4)
    ]
    seen = Recorder()
    members = Group([member(seen), member(seen)], seen)
    eventually(lambda: members.settled(8))
    sent = send_numbers(producer, topic, KEYS, 5)
    per_queue = Counter(result.queue for result in sent)
    assert {queue.broker_name for queue in per_queue} == {EAST, WEST}
    eventually(lambda: len(seen.deliveries) >= len(sent))
    members.close()
    assert all(seen.numbers(key) == list(range(5)) for key in KEYS)
    offsets = {q: client.brokers.query_offset(group, q) for q in producer.queues(topic)}
    assert offsets == {queue: per_queue[queue] for queue in offsets}
    for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UPDATE_CONSUMER_OFFSET):
        assert cluster.seen(cluster.master, code)
        assert cluster.seen(cluster.other, code)
        assert not cluster.seen(cluster.slave, code)


def test_a_lock_on_one_broker_is_none_on_the_other(connect, topic, group):
    ours, theirs = connect(), connect()
    for client in (ours, theirs):
        client.routes.get(topic)
    east, west = (MessageQueue(topic, name, 0) for name in (EAST, WEST))
    assert ours.brokers.lock_queues(group, EAST, [east]) == {east}
    assert theirs.brokers.lock_queues(group, WEST, [west]) == {west}
    assert theirs.brokers.lock_queues(group, EAST, [east]) == set()


def test_members_consume_in_their_own_machine_room_first(connect, member):
    rooms = {}
    nearby = machine_room_nearby(averagely, lambda name: name.split("@")[0], rooms.__getitem__)
    in_east, in_west = connect(), connect()
    rooms |= {in_east.client_id: "east", in_west.client_id: "west"}
    first = member(Recorder(), in_east, allocate=nearby)
    second = member(Recorder(), in_west, allocate=nearby)
    eventually(lambda: (brokers_of(first), brokers_of(second)) == ({EAST}, {WEST}))
    eventually(lambda: len(first.assignment) == len(second.assignment) == 4)
    first.close()
    eventually(lambda: len(second.assignment) == 8)


def test_a_machine_room_strategy_leaves_the_other_room_alone(member):
    consumer = member(Recorder(), allocate=machine_room(["west"]))
    eventually(lambda: len(consumer.assignment) == 4)
    assert brokers_of(consumer) == {WEST}


def test_an_unknown_broker_of_the_embedded_cluster_is_named(cluster):
    with pytest.raises(ConfigError, match=f"no broker 'elsewhere' with id 0; there are: {EAST} 0"):
        cluster.cluster.broker("elsewhere")
    assert [(b.name, b.broker_id) for b in cluster.cluster.brokers] == [
        (EAST, 0),
        (WEST, 0),
        (EAST, 1),
    ]
