"""A broker that is away, or hangs, holds a close up for seconds, whatever close_timeout is."""

import threading
import time

import pytest
import structlog

from orderly import Ack, Client, ConsumerConfig, OrderlyConsumer
from orderly.testing import FakeBroker
from tests.support.consuming import send_numbers, unique
from tests.support.waiting import eventually, patient_client, patient_producer

AWAY, THERE = "broker-a", "broker-b"
QUEUES = 4  # of each broker, and one of the group's retry topic
KEYS = [f"k{number}" for number in range(40)]
LONG = 600.0  # seconds; the test's limit, on a busy machine, is half of that
SOON = 120.0


@pytest.fixture
def brokers(closing):
    return closing(FakeBroker(brokers=(AWAY, THERE)))


@pytest.fixture
def leave(brokers):
    ways = {"is away": brokers.kill_broker, "hangs": brokers.pause_broker}
    return lambda way: ways[way](AWAY)


@pytest.fixture
def start(brokers, closing, group):
    """Start a member; returns it once it has all queues, with what is stored in them."""
    topic = unique("topic")
    brokers.create_topic(topic, QUEUES)

    def start(handler, order):
        producer = closing(patient_producer(client=closing(patient_client(brokers.namesrv))))
        results = send_numbers(producer, topic, KEYS, 1)
        config = ConsumerConfig(
            order=order, consume_from="first", commit_interval=3600, close_timeout=LONG
        )
        client = Client(namesrv=brokers.namesrv)
        closing(client)
        member = OrderlyConsumer(group, handler, client=client, config=config)
        closing(member.subscribe(topic))
        eventually(lambda: len(member.assignment) == 2 * QUEUES, within=60)
        return member, results

    return start


def closed(member):
    """How long its close takes (seconds), and what it logs."""
    began = time.monotonic()
    with structlog.testing.capture_logs() as events:
        member.close()
    return time.monotonic() - began, events


def named(events, name, topic):
    """The events of that name about the topic's queues: the group's retry topic has some, too."""
    return [e for e in events if e["event"] == name and e["topic"] == topic]


@pytest.mark.parametrize("way", ["is away", "hangs"])
@pytest.mark.parametrize("order", ["queue", "key"])
def test_what_could_not_be_given_back_is_named_and_the_rest_is(
    way, order, brokers, start, leave, group, client_of_test
):
    seen = []
    member, results = start(lambda messages, _: seen.append(messages[0].body) or Ack(), order)
    eventually(lambda: len(seen) == len(results))
    ends = {}
    for result in results:
        ends[result.queue] = max(ends.get(result.queue, 0), result.queue_offset + 1)
    eventually(lambda: {e.queue: e.offset for e in member.explain()}.items() >= ends.items())
    leave(way)
    seconds, events = closed(member)
    assert seconds < SOON
    assert member.state == "closed"
    left = {e["queue_id"]: e for e in named(events, "queue.left_behind", results[0].queue.topic)}
    free = named(events, "queue.released", results[0].queue.topic)
    assert {event["broker"] for event in left.values()} == {AWAY}
    assert sorted((e["broker"], e["queue_id"]) for e in free) == [(THERE, n) for n in range(QUEUES)]
    done = {queue.queue_id: end for queue, end in ends.items() if queue.broker_name == AWAY}
    assert {number: event["offset"] for number, event in left.items()} == done
    assert {event["saved"] for event in left.values()} == {0}
    assert all(event["error"] for event in left.values())
    for queue, end in ends.items():
        if queue.broker_name == THERE:
            assert client_of_test.brokers.query_offset(group, queue) == end


@pytest.fixture
def client_of_test(brokers, closing):
    return closing(patient_client(brokers.namesrv))


def test_a_handler_is_waited_for_all_the_same(start, leave, client_of_test, group):
    """Of a broker that answers: its result counts, and its queue is given back."""
    running, go_on = {}, threading.Event()

    def handler(messages, context):
        queue = context.message_queue
        if queue.broker_name == THERE:
            running[queue] = messages[0].queue_offset
            go_on.wait(LONG)
        return Ack()

    member, _ = start(handler, "queue")
    eventually(lambda: len(running) == QUEUES)
    leave("is away")
    closing = threading.Thread(target=member.close)
    closing.start()
    closing.join(8.0)  # longer than brokers are waited for
    assert closing.is_alive()
    go_on.set()
    closing.join(SOON)
    assert not closing.is_alive()
    for queue, offset in running.items():
        assert client_of_test.brokers.query_offset(group, queue) == offset + 1
    assert client_of_test.brokers.lock_queues(group, THERE, list(running)) == set(running)
