"""A topic grows and shrinks while it is consumed: nothing is skipped, nothing comes twice."""

import pytest

from orderly.model import MessageQueue
from tests.support.brokers import set_topic
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually, patient_producer

KEYS = [f"order-{i}" for i in range(20)]
QUICK = {"route_interval": 0.2, "rebalance_interval": 0.2}


@pytest.fixture
def later_producer(orderly_namesrv, closing):
    """A function that makes a producer which sees the topic as it is then."""
    return lambda: closing(patient_producer(orderly_namesrv))


def test_a_later_queue_is_consumed_from_its_first_message_even_under_last(
    topic, client, start_group, later_producer
):
    group = start_group(consume_from="last", **QUICK)
    set_topic(client, topic, read=4, write=7)
    sent = send_numbers(later_producer(), topic, KEYS, 3)
    assert len({r.queue for r in sent if r.queue.queue_id >= 4}) == 3
    set_topic(client, topic, read=7, write=7)
    eventually(lambda: group.settled(7), within=20)
    eventually(lambda: len(group.seen.deliveries) >= 60, within=20)
    assert group.seen.by_key() == {key: [0, 1, 2] for key in KEYS}


def test_a_queue_that_goes_is_saved_and_unlocked_and_nothing_comes_twice(
    producer, topic, client, group, start_group
):
    members = start_group(commit_interval=60, **QUICK)
    sent = send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: len(members.seen.deliveries) == 60, within=20)
    set_topic(client, topic, read=2, write=2)
    eventually(lambda: members.settled(2), within=20)
    gone = [MessageQueue(topic, "broker-a", number) for number in (2, 3)]

    def unlocked():
        return client.brokers.lock_queues(group, "broker-a", gone) == frozenset(gone)

    eventually(unlocked)
    for queue in gone:
        messages = sum(result.queue == queue for result in sent)
        assert messages > 0
        assert client.brokers.query_offset(group, queue) == messages
    client.brokers.unlock_queues(group, "broker-a", gone)
    set_topic(client, topic, read=4, write=4)
    eventually(lambda: members.settled(4), within=20)
    send_numbers(producer, topic, KEYS, 1, first=3)
    eventually(lambda: all(3 in members.seen.numbers(key) for key in KEYS), within=20)
    assert members.seen.by_key() == {key: [0, 1, 2, 3] for key in KEYS}
