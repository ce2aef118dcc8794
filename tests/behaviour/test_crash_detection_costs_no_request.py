"""While nobody dies, finding messages that end the process costs no request for any message."""

import pytest

from orderly.client.broker import BrokerCalls
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = ["a", "b", "c", "d", "e"]
NEVER = 3600  # seconds between commits: what is written is written for the queue, not for time


@pytest.fixture
def writes(monkeypatch):
    """What members appended to any topic."""
    found, send_now = [], BrokerCalls.send_now

    def noting(brokers, queue, command):
        found.append(queue.topic)
        return send_now(brokers, queue, command)

    monkeypatch.setattr(BrokerCalls, "send_now", noting)
    return found


def run(producer, topic, start_member, count):
    """A member from its start to its end that handles so many messages of each key."""
    send_numbers(producer, topic, KEYS, count)
    consumer, seen = start_member(order="key", commit_interval=NEVER, patient=True)
    eventually(lambda: len(seen.deliveries) >= count * len(KEYS), within=30)
    consumer.close()


def test_as_many_writes_for_few_messages_as_for_many(producer, topic, start_member, writes):
    run(producer, topic, start_member, 1)  # the very first owner of a queue writes where it began
    writes.clear()
    run(producer, topic, start_member, 2)
    few = sorted(writes)
    writes.clear()
    run(producer, topic, start_member, 100)
    assert sorted(writes) == few
    assert len(few) == 3 * 4, "of each queue: acquire, confirm and the mark of a clean end"
