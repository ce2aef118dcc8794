"""examples/sigterm.py: a service told to end leaves nothing unsaved and nothing locked."""

import signal

import pytest

from orderly import ConsumerConfig
from orderly.model import MessageQueue
from tests.support.consuming import Recorder, submit_numbers, unique
from tests.support.waiting import (
    eventually,
    patient_client,
    patient_consumer,
    patient_producer,
)

KEYS = [f"k{i}" for i in range(12)]
QUEUES = 4
EACH = 200  # of a key: work for seconds, so that a slow test comes before its end
SOON = 30


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=QUEUES)


@pytest.fixture
def service(start, orderly_namesrv, topic):
    group = unique("group")
    program = start("sigterm.py", group, topic, ORDERLY_NAMESRV=orderly_namesrv)
    program.group = group
    return program


def offsets_handled(lines):
    """The next offset by queue id, from the lines "handled TOPIC/BROKER/ID OFFSET"."""
    handled = {}
    for line in lines:
        if line.startswith("handled "):
            _, queue, offset = line.split()
            handled[int(queue.rpartition("/")[2])] = int(offset) + 1
    return handled


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_saves_what_was_handled_and_frees_its_queues(orderly_namesrv, topic, service, number):
    with patient_producer(orderly_namesrv) as producer:
        for key in KEYS:  # faster than it handles them, on a busy machine, too
            submit_numbers(producer, topic, key, EACH)
    eventually(lambda: sum(offsets_handled(service.lines).values()) > 50, SOON, every=0.05)
    assert service.end(number) == 0, service.errors
    lines = service.lines
    assert "running" in lines
    assert "closed" in lines

    handled = offsets_handled(lines)
    assert sum(handled.values()) < len(KEYS) * EACH, "it was not stopped half-way"
    queues = {n: MessageQueue(topic, "broker-a", n) for n in range(QUEUES)}
    with patient_client(orderly_namesrv) as client:
        committed = {
            n: client.brokers.query_offset(service.group, queue) for n, queue in queues.items()
        }
    assert committed == {n: handled.get(n, 0) for n in queues}

    seen = Recorder()
    config = ConsumerConfig(consume_from="first")
    heir = patient_consumer(service.group, seen, namesrv=orderly_namesrv, config=config)
    with heir.subscribe(topic):
        eventually(lambda: len(heir.assignment) == QUEUES, SOON)
        left = len(KEYS) * EACH - sum(handled.values())
        eventually(lambda: len(seen.deliveries) >= left, within=20)
    going_on = {d.queue_id for d in seen.deliveries}
    first = {n: min(d.offset for d in seen.deliveries if d.queue_id == n) for n in going_on}
    assert first == {n: committed[n] for n in going_on}, (
        "the next member goes on exactly where this one ended"
    )
    assert len(seen.deliveries) == left
