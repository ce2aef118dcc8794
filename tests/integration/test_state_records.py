"""Owners of a queue on a real broker: real locks, real offsets, records in a real topic."""

import statistics
import time

import pytest

from orderly.client.dialogues import performer
from orderly.errors import LockLost
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    AppendRecord,
    LockQueues,
    SaveOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.ownership import take_over
from tests.support.waiting import patient_client


@pytest.fixture
def queue(orderly_topic, client):
    topic = orderly_topic(queues=2)
    return MessageQueue(topic, client.routes.get(topic).brokers[0].broker_name, 1)


@pytest.fixture
def state_queue(orderly_topic, queue):
    return MessageQueue(orderly_topic(queues=2), queue.broker_name, 1)


@pytest.fixture
def park_queue(orderly_topic, queue):
    return MessageQueue(orderly_topic(queues=2), queue.broker_name, 1)


@pytest.fixture
def new_member(orderly_namesrv, group, queue, state_queue, park_queue):
    clients = []

    class Member:
        """A client that takes the queue over."""

        def __init__(self):
            self.client = patient_client(orderly_namesrv)
            clients.append(self.client)
            self.perform = performer(group, self.client.brokers)

        def take_over(self):
            client_id = self.client.client_id
            dialogue = take_over(queue, state_queue, park_queue, client_id, "first")
            return converse(dialogue, self.perform)

        def commit(self, memory, low, previous_low, *runs, **how):
            converse(memory.remember(low, previous_low, runs, **how), self.perform)
            self.perform(SaveOffset(queue, low))

        def lock(self):
            return queue in self.perform(LockQueues(queue.broker_name, (queue,)))

        def unlock(self):
            self.perform(UnlockQueues(queue.broker_name, (queue,)))

    yield Member
    for client in clients:
        client.close()


def test_the_state_goes_from_owner_to_owner(new_member):
    one, two = new_member(), new_member()
    first = one.take_over()
    assert (first.start, first.finished, first.unclean) == (0, (), False)
    one.commit(first.memory, 3, 0, (5, 7))
    assert two.take_over() is None, "the lock is the first one's"
    one.commit(first.memory, 4, 3, (5, 8))
    one.commit(first.memory, 4, 4, (5, 8), closed=True)
    one.unlock()
    second = two.take_over()
    assert (second.start, second.finished) == (4, ((5, 8),))
    assert (second.unclean, second.reset, second.damaged) == (False, False, False)
    assert second.memory.fencing_token > first.memory.fencing_token
    assert second.memory.epoch == 2


def test_a_former_owner_can_write_nothing_that_counts(new_member):
    one, two = new_member(), new_member()
    first = one.take_over()
    one.commit(first.memory, 3, 0, (5, 7))
    one.unlock()  # as if its lease ran out without its knowing
    second = two.take_over()
    assert second.finished == ((5, 7),)
    assert second.unclean
    with pytest.raises(LockLost):
        one.commit(first.memory, 3, 3, (5, 9))
    two.unlock()
    assert new_member().take_over().finished == ((5, 7),)


def test_a_record_damaged_by_hand_is_told_and_the_one_before_taken(new_member, state_queue):
    one, two = new_member(), new_member()
    first = one.take_over()
    one.commit(first.memory, 3, 0, (5, 7))
    one.perform(AppendRecord(state_queue, b"orderly-state 1 entry 00000000 {}"))
    with pytest.raises(LockLost):
        one.commit(first.memory, 3, 3, (5, 9))
    one.unlock()
    second = two.take_over()
    assert (second.finished, second.damaged) == (((5, 7),), True)
    two.commit(second.memory, 3, 3, (5, 7))
    two.unlock()
    third = new_member().take_over()
    assert (third.finished, third.damaged) == (((5, 7),), False)


def test_a_large_state_comes_back_whole(new_member):
    one, two = new_member(), new_member()
    first = one.take_over()
    runs = tuple((10**12 + 3 * i, 10**12 + 3 * i + 1) for i in range(40_000))
    one.commit(first.memory, 10**11, 0, *runs)
    one.unlock()
    assert two.take_over().finished == runs


def test_a_clean_take_over_is_quick(new_member, record_property):
    members = [new_member(), new_member()]
    runs = tuple((10 + 2 * i, 11 + 2 * i) for i in range(500))
    seconds = []
    for turn in range(12):
        member = members[turn % 2]
        assert member.lock()  # the connections are open
        started = time.perf_counter()
        inherited = member.take_over()
        seconds.append(time.perf_counter() - started)
        member.commit(inherited.memory, 5, inherited.begin.start, *runs)
        member.commit(inherited.memory, 5, 5, *runs, closed=True)
        member.unlock()
    median = statistics.median(seconds[2:])
    record_property("take_over_ms", round(median * 1000, 1))
    print(f"take-over: median {median * 1000:.1f} ms, slowest {max(seconds[2:]) * 1000:.1f} ms")
    assert median < 3.0, "a limit for a busy machine; 0.05 is the aim on an idle one"
