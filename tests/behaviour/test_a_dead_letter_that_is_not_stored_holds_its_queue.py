"""Until the broker has stored a dead letter the message is not done: the queue waits, in order."""

import threading

import pytest

from orderly import ConsumeResult
from orderly.errors import RequestTimeout
from tests.support.brokers import take_lock_from
from tests.support.consuming import send_numbers
from tests.support.topics import dead_letters, dead_numbers
from tests.support.waiting import eventually

BAD = 1


def refuse(messages, context):
    if int(messages[0].body) == BAD:
        return context.dead_letter(messages[0], "no such account")
    return ConsumeResult.SUCCESS


@pytest.fixture
def broken():
    """While it is set, no dead letter of `start_broken`'s member reaches the broker."""
    event = threading.Event()
    event.set()
    return event


@pytest.fixture
def start_broken(start_member, broken):
    """A member whose sends of dead letters fail, and the list of those it tried."""

    def start(**settings):
        settings = {"suspend": 0.02, "commit_interval": 0.05, "patient": True} | settings
        member, seen = start_member(refuse, **settings)
        tried = []
        # On the instance: other clients of this process still send.
        brokers = member._client.brokers
        send_now = brokers.send_now

        def fail(queue, command):
            tried.append(queue)
            if broken.is_set():
                raise RequestTimeout("made by the test")
            return send_now(queue, command)

        brokers.send_now = fail
        return member, seen, tried

    return start


def test_the_queue_waits_and_nothing_is_lost_or_acknowledged(
    producer, topic, group, client, start_broken, broken
):
    # The member has its first message only after its sends were broken.
    _, seen, tried = start_broken()
    queue = send_numbers(producer, topic, ["a"], 4)[0].queue
    eventually(lambda: len(tried) >= 3, within=20)
    assert set(seen.numbers("a")) == {0, BAD}
    assert dead_letters(client, group) == []
    eventually(lambda: client.brokers.query_offset(group, queue) == BAD)
    broken.clear()
    eventually(lambda: 3 in seen.numbers("a"), within=20)
    assert dead_numbers(client, group, 1) == [BAD]
    eventually(lambda: client.brokers.query_offset(group, queue) == 4)
    assert seen.numbers("a")[-2:] == [2, 3]


def test_after_a_member_that_could_not_store_it_the_next_one_does(
    producer, topic, group, client, start_broken, start_member
):
    member, _, tried = start_broken()
    send_numbers(producer, topic, ["a"], 3)
    eventually(lambda: len(tried) >= 2, within=20)
    member.close()
    _, seen = start_member(refuse, patient=True)
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [BAD, 2]
    assert dead_numbers(client, group, 1) == [BAD]


def test_without_the_lock_none_is_sent(producer, topic, group, client, start_member):
    stolen = []

    def robbed(messages, context):
        if int(messages[0].body) != BAD:
            return ConsumeResult.SUCCESS
        if not stolen:  # as after a pause longer than the lease
            take_lock_from(client, member.client_id, group, context.message_queue)
            stolen.append(context.message_queue)
        return context.dead_letter(messages[0], "no such account")

    member, seen = start_member(robbed, suspend=0.02)
    send_numbers(producer, topic, ["a"], 3)
    (queue,) = eventually(lambda: stolen, within=20)
    eventually(lambda: queue not in member.assignment)
    assert dead_letters(client, group) == []
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    eventually(lambda: 2 in seen.numbers("a"), within=20)
    assert dead_numbers(client, group, 1) == [BAD]
    assert seen.numbers("a")[-2:] == [BAD, 2]
