"""A consumer that must close before its handler ended keeps the lock until it has; others are free.

What was done before is saved at the deadline, for the process may end at any moment after it.
"""

import threading

import pytest
import structlog

from tests.support.consuming import Blocking, Group, send_numbers
from tests.support.waiting import eventually, patient_client

NEVER = 3600  # only the close saves


@pytest.fixture
def other(orderly_namesrv, closing):
    return closing(patient_client(orderly_namesrv))


@pytest.fixture
def lock(group, other):
    def lock(*queues):
        return other.brokers.lock_queues(group, "broker-a", queues)

    return lock


def test_the_queue_stays_locked_until_the_handler_ends_and_its_result_counts(
    producer, topic, group, other, lock, start_member
):
    with structlog.testing.capture_logs() as events, Blocking(at=1) as handler:
        member, seen = start_member(handler, close_timeout=3.0, commit_interval=NEVER)
        queue = send_numbers(producer, topic, ["a"], 3)[0].queue
        eventually(lambda: handler.running == {queue}, within=20)
        idle = set(member.assignment) - {queue}
        member.close()
        assert other.brokers.query_offset(group, queue) == 1, "number 0 is done"
        eventually(lambda: lock(*idle) == idle)  # at the close, if the machine lets it
        assert not lock(queue)
    (event,) = [e for e in events if e["event"] == "queue.left_locked"]
    assert (event["topic"], event["queue_id"]) == (topic, queue.queue_id)
    assert (event["offset"], event["key"]) == (1, "a")
    assert event["handler_running_seconds"] >= 3.0
    eventually(lambda: lock(queue))
    assert other.brokers.query_offset(group, queue) == 2, "its success counts"
    assert seen.numbers("a") == [0, 1], "nothing new is begun"
    eventually(lambda: not [t for t in threading.enumerate() if group in t.name])


def test_idle_queues_are_free_at_once(group, lock, start_member):
    member, _ = start_member()
    eventually(lambda: len(member.assignment) == 4, within=20)
    queues = member.assignment
    member.close()
    assert lock(*queues) == frozenset(queues)
    eventually(lambda: not [t for t in threading.enumerate() if group in t.name])


def test_the_others_take_over_when_they_are_told(members, start_member):
    """By the broker, as the member leaves: they need no round of their own."""
    leaver, *heirs = [start_member(rebalance_interval=NEVER)[0] for _ in range(members + 1)]
    eventually(lambda: Group([leaver, *heirs], None).settled(4), within=20)
    leaver.close()
    eventually(lambda: Group(heirs, None).settled(4))
