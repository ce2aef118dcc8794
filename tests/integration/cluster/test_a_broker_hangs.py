"""A master is stopped (SIGSTOP) while handlers ask it for more time: the other's queues go on."""

import contextlib
import time
from functools import partial

import pytest
import structlog

from orderly import ConsumeResult, OrderlyConsumer, OrderlyProducer
from orderly.errors import OrderlyError
from tests.support.brokers import EAST, SHORT, WEST, consumer_config, join
from tests.support.consuming import first_deliveries, send_numbers, unique
from tests.support.waiting import eventually

QUEUES = 20  # of each master: as many as there are threads
KEYS = [f"k{number}" for number in range(20 * QUEUES)]
TRUST = SHORT - 1  # seconds; on a busy machine rounds are late


class Handler:
    """At the master that hangs it extends the lease and never ends well."""

    def __init__(self):
        self.noted, self.extending = {}, set()

    def __call__(self, messages, context):
        if context.message_queue.broker_name == WEST:
            self.noted.setdefault(messages[0].sharding_key, []).append(int(messages[0].body))
            return ConsumeResult.SUCCESS
        self.extending.add(context.message_queue)
        with contextlib.suppress(OrderlyError):
            context.extend()
        return ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT


@pytest.mark.nightly
def test_the_other_masters_queues_stay_and_are_handled_and_committed(
    cluster, client, connect, closing, group
):
    topic = unique("topic")
    client.admin.create_topic(topic, QUEUES)
    producer = closing(OrderlyProducer(namesrv=cluster.namesrv))
    results = send_numbers(producer, topic, KEYS, 1)
    homes = {key: r.queue for key, r in zip(KEYS, results, strict=True)}
    assert len(set(homes.values())) == 2 * QUEUES
    keys = sorted(
        {queue: key for key, queue in homes.items() if queue.broker_name == WEST}.values()
    )
    handler = Handler()
    config = consumer_config(SHORT, lock_trust=TRUST, suspend=0.01)
    with structlog.testing.capture_logs() as events:
        new = partial(OrderlyConsumer, group, handler, client=connect(), config=config)
        member = join(new, topic)
        closing(contextlib.closing(member))
        eventually(lambda: handler.noted.keys() >= set(keys), within=60)
        eventually(lambda: len(handler.extending) == QUEUES, within=60)
        owned = {queue for queue in member.assignment if queue.broker_name == WEST}
        assert len(owned) == QUEUES
        cluster.master.pause()
        since, number = time.monotonic(), 1
        while time.monotonic() - since < 2 * TRUST:
            send_numbers(producer, topic, keys, 1, first=number)
            eventually(lambda n=number: all(n in handler.noted[k] for k in keys), within=60)
            number += 1
        assert {e["broker"] for e in events if e["event"] == "lock.lost"} == {EAST}
        assert {queue for queue in member.assignment if queue.broker_name == WEST} == owned
        for key in keys:  # a message that was sent again may be stored twice
            assert first_deliveries(handler.noted[key]) == list(range(number))
        for queue in owned:
            end = client.brokers.max_offset(queue)
            eventually(lambda q=queue, e=end: client.brokers.query_offset(group, q) == e, within=60)
