"""Replies over max_frame: fewer messages are asked for; one that alone is too large waits."""

from dataclasses import replace

import pytest
import structlog

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from orderly.client.broker import PullQuery
from orderly.consumer import puller
from orderly.errors import ReplyTooLarge
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import send_raw
from tests.support.waiting import eventually, patient_client

LIMIT = 64 * 1024  # bytes; the least that max_frame may be
HALF = LIMIT // 2 + 1000


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=2)


@pytest.fixture
def queues(topic):
    return [MessageQueue(topic, "broker-a", number) for number in range(2)]


@pytest.fixture
def send(client, topic):
    def send(queue, size):
        client.routes.get(topic)
        return send_raw(client, queue, bytes([65]) * size, sys_flag=0)

    return send


@pytest.fixture
def consume(orderly_namesrv, topic, group, closing):
    """Start a consumer that takes frames of so many bytes; returns it and what it handled."""

    def start(max_frame=LIMIT, **settings):
        seen = []

        def handle(messages, context):
            seen.extend((m.queue.queue_id, m.queue_offset) for m in messages)
            return Ack()

        client = closing(patient_client(orderly_namesrv, max_frame=max_frame))
        config = ConsumerConfig(consume_from="first", pull_retry=0.1, **settings)
        consumer = OrderlyConsumer(group, handle, config=config, client=client)
        closing(consumer.subscribe(topic))
        return consumer, seen

    return start


def lost(events):
    return [e["event"] for e in events if e["event"].startswith("connection.")]


@pytest.mark.parametrize("order", ["queue", "key"])
def test_messages_that_fit_one_by_one_are_all_handled(order, send, queues, consume):
    for _ in range(6):
        send(queues[0], HALF)
    with structlog.testing.capture_logs() as events:
        _, seen = consume(order=order)
        eventually(lambda: seen == [(0, at) for at in range(6)], within=60)
        assert lost(events) == []
    assert not [e for e in events if e["event"] in ("message.too_large", "pull.failed")]


def test_one_that_is_too_large_holds_its_queue_and_no_other(
    send, queues, consume, client, group, monkeypatch
):
    monkeypatch.setattr(puller, "_LARGE_RETRY", 0.2)
    for size in (10, HALF, 10, LIMIT + 10, 10):
        send(queues[0], size)
    with structlog.testing.capture_logs() as events:
        consumer, seen = consume()
        told = eventually(
            lambda: [e for e in events if e["event"] == "message.too_large"][3:], within=60
        )
        for _ in range(3):
            send(queues[1], 10)
        others = {(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)}
        eventually(lambda: others <= set(seen), within=30)
        health = consumer.health()
        assert lost(events) == [], "the other queue's connection is the same"
    assert set(seen) == others, "nothing is skipped"
    assert (told[0]["offset"], told[0]["queue_id"], told[0]["max_frame"]) == (3, 0, LIMIT)
    assert told[0]["bytes"] > LIMIT
    assert not health.ready
    assert f"the message of {queues[0]} at offset 3" in " ".join(health.reasons)
    consumer.close()
    assert client.brokers.query_offset(group, queues[0]) == 3
    _, seen = consume(max_frame=2 * LIMIT)
    eventually(lambda: (0, 4) in seen, within=30)
    assert [at for at in seen if at[0] == 0] == [(0, 3), (0, 4)]


def test_a_reader_that_waits_for_its_reply_asks_for_fewer_too(
    send, queues, orderly_namesrv, closing, group
):
    for size in (HALF, HALF, LIMIT + 10):
        send(queues[0], size)
    client = closing(patient_client(orderly_namesrv, max_frame=LIMIT))
    query = PullQuery(group, queues[0], 0, 32, Subscription(queues[0].topic), suspend=0)
    assert [m.queue_offset for m in client.brokers.pull_now(query).messages] == [0]
    with pytest.raises(ReplyTooLarge, match=f"the message of {queues[0]} at offset 2"):
        client.brokers.pull_now(replace(query, offset=2))
