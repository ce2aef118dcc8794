"""The broker's queue lock is what the library builds on: per group, per client, all or part.

Facts of RebalanceLockManager, on the real broker: should a release change them, this says so.
"""

import threading

import pytest

from orderly import MessageQueue
from tests.support.consuming import send_numbers, unique
from tests.support.waiting import eventually, patient_client

ROUNDS = 25


@pytest.fixture
def queues(topic):
    return frozenset(MessageQueue(topic, "broker-a", i) for i in range(4))


@pytest.fixture
def other(orderly_namesrv, closing):
    return closing(patient_client(orderly_namesrv))


@pytest.fixture
def lock(group):
    def lock(client, queues, group=group):
        return client.brokers.lock_queues(group, "broker-a", queues)

    return lock


def test_what_is_free_is_granted_and_the_rest_is_left_out(lock, queues, client, other):
    mine = {queue for queue in queues if queue.queue_id < 2}
    assert lock(client, mine) == mine
    assert lock(other, queues) == queues - mine
    assert lock(client, queues) == mine


def test_the_owner_gets_it_again(lock, queues, client, other):
    assert lock(client, queues) == lock(client, queues) == queues
    assert lock(other, queues) == frozenset()


def test_only_the_owner_can_give_it_back(lock, group, queues, client, other):
    lock(client, queues)
    other.brokers.unlock_queues(group, "broker-a", queues)
    assert lock(other, queues) == frozenset()
    client.brokers.unlock_queues(group, "broker-a", queues)
    assert lock(other, queues) == queues


def test_two_clients_and_two_groups_race(lock, queues, client, other):
    """In each group every queue has exactly one owner; the groups do not see each other."""
    for _ in range(ROUNDS):
        groups = [unique("race"), unique("race")]
        start, granted = threading.Barrier(4), {}

        def race(client, group, start=start, granted=granted):
            wanted = sorted(queues)
            start.wait(10)
            granted[group, client.client_id] = [
                queue for queue in wanted if lock(client, [queue], group)
            ]

        racers = [
            threading.Thread(target=race, args=(who, name))
            for who in (client, other)
            for name in groups
        ]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        for name in groups:
            assert sorted(granted[name, client.client_id] + granted[name, other.client_id]) == (
                sorted(queues)
            )


def test_groups_consume_side_by_side(producer, topic, queues, lock, other, start_group):
    strangers = unique("strangers")
    assert lock(other, queues, strangers) == queues
    send_numbers(producer, topic, ["a", "b"], 3)
    seen = start_group().seen
    eventually(lambda: len(seen.deliveries) == 6, within=20)
    assert lock(other, queues) == frozenset()
    assert lock(other, queues, strangers) == queues
