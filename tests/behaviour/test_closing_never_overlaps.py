"""A consumer that must close before its handler ended keeps the lock until it has."""

import threading

from orderly import Client, ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually


def test_the_queue_stays_locked_until_the_handler_ends_and_its_result_counts(
    producer, topic, group, start_member, orderly_namesrv
):
    queue = send_numbers(producer, topic, ["a"], 2)[0].queue
    running, release = threading.Event(), threading.Event()

    def slow(messages, context):
        running.set()
        release.wait(30)
        return ConsumeResult.SUCCESS

    member, _ = start_member(slow, close_timeout=0.2)
    assert running.wait(20)
    member.close()
    with Client(namesrv=orderly_namesrv) as other:

        def locked():
            return queue in other.brokers.lock_queues(group, queue.broker_name, [queue])

        assert not locked()
        release.set()
        eventually(locked, within=10)
        assert other.brokers.query_offset(group, queue) == 1


def test_idle_queues_are_free_at_once(producer, topic, group, start_member, orderly_namesrv):
    member, _ = start_member()
    eventually(lambda: len(member.assignment) == 4, within=20)
    queues = member.assignment
    member.close()
    with Client(namesrv=orderly_namesrv) as other:
        assert other.brokers.lock_queues(group, "broker-a", queues) == frozenset(queues)
    assert not [t for t in threading.enumerate() if group in t.name]
