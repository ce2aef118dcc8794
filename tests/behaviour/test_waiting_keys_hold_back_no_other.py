"""However many keys of a queue wait, their bodies take a quarter of the room: the others go on."""

import threading

import pytest

from orderly import Ack, Message, Suspend
from tests.support.consuming import judged_by_key
from tests.support.waiting import eventually

WAITING = [f"waits-{number}" for number in range(1500)]  # more than the default window has room for
HEALTHY = [f"healthy-{number}" for number in range(50)]


@pytest.fixture
def one_queue(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def start(start_member, one_queue):
    """Start a member of the topic with one queue, with order by key."""

    def start(act, **settings):
        consumer, seen = start_member(act, order="key", **settings)
        consumer.subscribe(one_queue)
        return consumer, seen

    return start


def submit(producer, topic, keys, number=0):
    """One message a key, in the order of `keys` and in few requests; returns the results."""
    body = str(number).encode()
    futures = [producer.submit(Message(topic, body, sharding_key=key)) for key in keys]
    return [future.result(60) for future in futures]


def test_those_behind_them_are_handled_with_default_settings(producer, one_queue, start):
    def act(messages, context):
        return Suspend(120) if context.key.startswith("waits") else Ack()

    submit(producer, one_queue, WAITING)
    submit(producer, one_queue, HEALTHY)
    consumer, seen = start(act)
    eventually(lambda: all(seen.numbers(key) == [0] for key in HEALTHY), within=60)

    def explained():
        (found,) = [e for e in consumer.explain() if e.queue.topic == one_queue]
        return found

    # The last healthy ones are settled a moment after their handler was called.
    eventually(lambda: (explained().keys, explained().keys_suspended) == (len(WAITING),) * 2)
    assert explained().cached <= consumer.config.pull_threshold // 4, "bodies of those that wait"
    assert sorted(d.key for d in list(seen.deliveries)) == sorted([*WAITING, *HEALTHY])
    eventually(lambda: consumer.health().ready)


def test_they_come_again_each_in_its_order_and_none_is_lost(producer, one_queue, start):
    """Most of them have no body left when their time has come."""
    waiting, rounds, repaired = WAITING[:300], 3, threading.Event()

    def act(messages, context):
        healthy = repaired.is_set() or not context.key.startswith("waits")
        return Ack() if healthy else Suspend(0.3)

    keys = waiting + HEALTHY
    results = [r for n in range(rounds) for r in submit(producer, one_queue, keys, n)]
    consumer, seen = start(act, pull_threshold=40, concurrency=4)
    eventually(lambda: all(len(seen.numbers(key)) == rounds for key in HEALTHY), within=60)
    eventually(lambda: all(seen.numbers(key) for key in waiting), within=60)
    repaired.set()
    eventually(lambda: all(seen.numbers(k)[-1:] == [rounds - 1] for k in keys), within=120)
    eventually(lambda: all(e.keys == 0 for e in consumer.explain()))
    verdict = judged_by_key(keys, results, seen)
    assert verdict.ok, verdict
    attempts = {}
    for delivery in sorted(seen.deliveries, key=lambda d: d.started):
        before = attempts.setdefault(delivery.offset, 0)
        assert delivery.attempt == before + 1, "attempts are counted though the body was let go"
        attempts[delivery.offset] += 1
