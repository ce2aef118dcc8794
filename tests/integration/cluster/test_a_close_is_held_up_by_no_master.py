"""A master is stopped (SIGSTOP), or killed: what is closed then takes seconds, and gives back what
the other one has."""

import time

import pytest
import structlog

from orderly import Ack, OrderlyConsumer, OrderlyProducer
from orderly.model import MessageQueue
from tests.support.brokers import EAST, WEST, consumer_config
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

QUEUES = 4  # of each master
LONG, SOON = 600.0, 120.0  # seconds; of a close, and what three of them may take


@pytest.mark.parametrize("way", ["pause", "kill"])
def test_two_consumers_and_a_producer(way, cluster, client, connect, closing, group, topic):
    seen = []
    groups = [group, f"{group}-2"]
    config = consumer_config(60.0, close_timeout=LONG, commit_interval=3600)
    producer = closing(OrderlyProducer(client=connect()))
    results = send_numbers(producer, topic, [f"k{number}" for number in range(40)], 1)
    members = []
    for each in groups:
        consumer = OrderlyConsumer(
            each,
            lambda messages, _: seen.append(messages) or Ack(),
            client=connect(),
            config=config,
        )
        members.append(closing(consumer.subscribe(topic)))
    eventually(lambda: len(seen) == 2 * len(results), within=60)
    getattr(cluster.master, way)()
    began = time.monotonic()
    with structlog.testing.capture_logs() as events:
        for member in members:
            member.close()
        producer.close()
    assert time.monotonic() - began < SOON
    for each in groups:
        mine = [e for e in events if e.get("group") == each and e.get("topic") == topic]
        left = [e["broker"] for e in mine if e["event"] == "queue.left_behind"]
        free = [e["broker"] for e in mine if e["event"] == "queue.released"]
        assert (left, free[:QUEUES]) == ([EAST] * QUEUES, [WEST] * QUEUES)
        queues = {MessageQueue(topic, WEST, number) for number in range(QUEUES)}
        assert client.brokers.lock_queues(each, WEST, queues) == queues
        for queue in queues:
            assert client.brokers.query_offset(each, queue) == client.brokers.max_offset(queue)
