"""A Java program that sends received messages again: each copy is handled, whoever handles it.

Our producer marks what it sends again, and consumers leave such copies out. A Java program that
sends a received message again keeps all its properties: the id, and the mark, too.
"""

import contextlib
import threading
from pathlib import Path

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from orderly.errors import RequestTimeout
from orderly.protocol.properties import ATTEMPT, UNIQ_KEY
from tests.support.consuming import named, unique
from tests.support.java import ForeignMember, compile_java, run_java
from tests.support.topics import pulled
from tests.support.waiting import (
    await_visible,
    eventually,
    patient_client,
    patient_producer,
)

SOURCE = Path(__file__).with_name("JavaSendsAgain.java")
QUEUES, KEYS = 4, 20
BATCH = 8
LOST = 4  # one answer of so many
JOINED = 90.0  # seconds; Java looks again 20 s after it missed a notification


class Places:
    """A handler that notes the places of messages: (queue id, offset)."""

    def __init__(self):
        self.found = []
        self._lock = threading.Lock()

    def __call__(self, messages, context):
        with self._lock:
            self.found += [(message.queue.queue_id, message.queue_offset) for message in messages]
        return ConsumeResult.SUCCESS


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=QUEUES)


@pytest.fixture
def send_ours(orderly_namesrv, topic):
    """Send messages of ours; the broker's answers to some batches get lost."""

    def send(count):
        with (
            patient_client(orderly_namesrv) as own,
            patient_producer(
                client=own, retry_backoff=0.001, linger=1.0, batch_messages=BATCH
            ) as producer,
        ):
            answers, through = iter(range(10**9)), own.brokers.send

            def lossy(queue, command, timeout, on_result, **rest):
                def heard(outcome):
                    lost = next(answers) % LOST == 0
                    on_result(RequestTimeout("the answer was lost") if lost else outcome)

                return through(queue, command, timeout, heard, **rest)

            own.brokers.send = lossy
            for number in range(count):
                producer.submit(
                    Message(topic, b"%d" % number, sharding_key=f"ours-{number % KEYS}")
                )
            assert producer.flush()

    return send


@pytest.fixture
def send_as_java(orderly_namesrv, topic, tmp_path, client):
    """Run the Java program; returns the places of what it stored: (queue id, offset)."""
    compile_java(SOURCE, tmp_path)

    def ends():
        await_visible(client)
        return {
            q.queue_id: client.brokers.max_offset(q) for q in client.routes.get(topic).read_queues()
        }

    def send(count):
        before = ends()
        run_java(tmp_path, SOURCE.stem, f"{orderly_namesrv} {topic} {count}")
        return {(q, at) for q, end in ends().items() for at in range(before[q], end)}

    return send


@pytest.fixture
def start_ours(orderly_namesrv, topic, closing):
    def start(group, order):
        places = Places()
        config = ConsumerConfig(order=order, consume_from="first", rebalance_interval=5)
        own = closing(patient_client(orderly_namesrv))
        consumer = OrderlyConsumer(group, places, client=own, config=config)
        return closing(consumer.subscribe(topic)), places

    return start


def ours_again(messages):
    """The places of copies of what we sent: a copy stands before each, one of them is marked."""
    seen, copies = {}, []
    for message in messages:
        name = (message.queue.queue_id, message.properties[UNIQ_KEY])
        if name in seen:
            copies.append((message.queue.queue_id, message.queue_offset))
            assert ATTEMPT in message.properties
            assert message.born_time == seen[name]
        seen.setdefault(name, message.born_time)
    return copies


@pytest.mark.needs("jdk")
@pytest.mark.parametrize(
    "count",
    [20_000, pytest.param(200_000, marks=[pytest.mark.slow, pytest.mark.nightly])],
)
def test_each_is_handled(
    count, start_ours, send_ours, send_as_java, java_command, orderly_namesrv, topic, client, events
):
    mixed, by_key, by_queue = unique("mixed"), unique("by-key"), unique("by-queue")
    send_ours(count // 20)
    await_visible(client)
    copies = ours_again(pulled(client, topic))
    with contextlib.ExitStack() as closing:
        java = closing.enter_context(ForeignMember(java_command, orderly_namesrv, mixed, topic))
        half, beside_java = start_ours(mixed, "queue")
        eventually(lambda: len(half.assignment) == QUEUES // 2, within=JOINED)
        orders = {by_key: "key", by_queue: "queue"}
        alone = {each: start_ours(each, order)[1] for each, order in orders.items()}
        theirs = send_as_java(count)
        assert len(theirs) > count

        def with_java():
            return set(beside_java.found) | {(d.queue, d.offset) for d in list(java.deliveries)}

        def skipped(group):
            found = named(events, "message.repeat_skipped")
            return [(e["queue_id"], e["offset"]) for e in found if e["group"] == group]

        looks = {mixed: with_java} | {g: lambda p=p: set(p.found) for g, p in alone.items()}
        for group, look in looks.items():
            done = lambda g=group, look=look: theirs <= look() or theirs & set(skipped(g))  # noqa: E731
            eventually(done, within=120, every=0.5)
            assert theirs.isdisjoint(skipped(group))
    assert sorted(skipped(by_key)) == sorted(skipped(by_queue)) == sorted(copies)
    assert set(skipped(mixed)) <= set(copies)
    assert len(copies) > count // 100
    print(len(theirs), "of Java, of ours", len(copies), "copies that nobody got")
