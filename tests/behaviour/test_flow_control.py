"""What is cached is bounded, by queue and by topic; consuming it lets more come."""

import threading
import zlib

import pytest

from orderly import ConsumeResult, MessageQueue
from orderly.ordering.explain import Why
from tests.support.consuming import send_numbers
from tests.support.messages import send_raw
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(16)]
PULL = 4  # messages a pull


class Dam:
    """A handler that waits while the dam is shut."""

    def __init__(self):
        self.opened = threading.Event()

    def __call__(self, messages, context):
        self.opened.wait(30)
        return ConsumeResult.SUCCESS


@pytest.fixture
def dam():
    dam = Dam()
    yield dam
    dam.opened.set()


def cached(group):
    """By queue id: messages and bytes held."""
    return {
        health.queue.queue_id: (health.cached_messages, health.cached_bytes)
        for consumer in group.consumers
        for health in consumer.health().queues
    }


def send_evenly(producer, topic, count, first=0):
    """At least `count` messages into each of the four queues."""
    results = send_numbers(producer, topic, KEYS, count, first=first)
    assert len({result.queue for result in results}) == 4


def within(low, high, group, column=0):
    """Whether each queue holds more than `low`; fails as soon as one holds more than `high`."""
    held = [held[column] for held in cached(group).values()]
    assert max(held) <= high, held
    return len(held) == 4 and min(held) > low


def stays_within(low, high, group, producer, topic, dam, column=0):
    """It fills up to the limit, goes no further, and all of it flows off once the dam opens."""
    eventually(lambda: within(low, high, group, column), within=20)
    for _ in range(5):  # each takes as long as several pulls
        send_numbers(producer, topic, KEYS[:4], 5, first=100)
        within(low, high, group, column)
    before = len(group.seen.deliveries)
    dam.opened.set()
    eventually(lambda: sum(n for n, _ in cached(group).values()) == 0, within=20)
    assert len(group.seen.deliveries) > before


def test_messages_of_a_queue(producer, topic, start_group, dam):
    group = start_group(dam, pull_threshold=10, pull_batch=PULL)
    send_evenly(producer, topic, 30)
    stays_within(10, 10 + PULL, group, producer, topic, dam)
    eventually(lambda: len(group.seen.deliveries) == 30 * 16 + 100, within=20)
    assert all(group.seen.numbers(key)[:30] == list(range(30)) for key in KEYS)


def test_bytes_of_a_queue(producer, topic, start_group, dam):
    limit, message = 30_000, 2600  # bytes of memory; a message with its properties takes less
    group = start_group(dam, pull_threshold_bytes=limit, pull_batch=PULL)
    send_evenly(producer, topic, 30)
    stays_within(limit, limit + PULL * message, group, producer, topic, dam, column=1)


def test_what_small_messages_take_once_they_are_unpacked(topic, client, start_group, dam):
    """Stored, all of them together have fewer bytes than one of them unpacked."""
    limit, size = 250_000, 100_000  # bytes of memory
    body = zlib.compress(b"7".rjust(size))  # a number, as the handler wants it
    group = start_group(dam, pull_threshold_bytes=limit)
    client.routes.get(topic)
    for number in range(40):
        queue = MessageQueue(topic, "broker-a", number % 4)
        send_raw(client, queue, body, key=KEYS[number % 4])
    eventually(lambda: within(limit, limit + size + 4096, group, column=1), within=30)
    dam.opened.set()

    def most():
        held = cached(group).values()
        assert max(size for _, size in held) <= limit + size + 4096, held
        return sum(number for number, _ in held) == 0

    eventually(most, within=30)


def test_a_topics_limit_is_split_anew_as_members_come_and_go(producer, topic, start_group, dam):
    settings = {"pull_threshold_topic": 48, "pull_batch": PULL}
    group = start_group(dam, **settings)
    share = {
        queue.queue_id: 48 // len(c.assignment) for c in group.consumers for queue in c.assignment
    }
    send_evenly(producer, topic, 40)

    def filled():
        held = cached(group)
        assert all(held[q][0] <= share[q] + PULL for q in held), (held, share)
        return all(held[q][0] > share[q] for q in held)

    eventually(filled, within=20)
    dam.opened.set()
    for leaver in group.consumers[1:]:
        leaver.close()
    eventually(lambda: len(group.consumers[0].assignment) == 4, within=20)
    eventually(lambda: sum(n for n, _ in cached(group).values()) == 0, within=20)
    dam.opened.clear()
    send_evenly(producer, topic, 40, first=40)
    stays_within(12, 12 + PULL, group, producer, topic, dam)


def test_what_a_handler_never_commits_is_named_as_the_reason(producer, topic, start_group):
    def never_commit(messages, context):
        context.auto_commit = False
        return ConsumeResult.SUCCESS

    group = start_group(never_commit, pull_threshold=10, pull_batch=PULL)
    send_evenly(producer, topic, 30)

    def reasons():
        return [e.why for c in group.consumers for e in c.explain() if e.offset is not None]

    eventually(lambda: reasons() == [Why.UNCOMMITTED] * 4, within=20)
    assert all(10 < messages <= 10 + PULL for messages, _ in cached(group).values())
