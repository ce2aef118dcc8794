"""examples/sigterm.py: a service told to end leaves nothing unsaved and nothing locked."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orderly import Client, ConsumerConfig, OrderlyConsumer, OrderlyProducer
from orderly.model import MessageQueue
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "sigterm.py"
KEYS = [f"k{i}" for i in range(12)]
QUEUES = 4
EACH = 40
SOON = 30


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=QUEUES)


class Service:
    """A run of the example; what it prints is in files, so that no pipe can fill up."""

    def __init__(self, folder, namesrv, group, topic):
        self.group = group
        self._out, self._errors = folder / "out", folder / "errors"
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(EXAMPLE), group, topic],
                stdout=out,
                stderr=errors,
                env={**os.environ, "ORDERLY_NAMESRV": namesrv},
            )

    @property
    def lines(self):
        return self._out.read_text().splitlines()

    @property
    def errors(self):
        return self._errors.read_text()


@pytest.fixture
def service(orderly_namesrv, topic, tmp_path):
    """Start the example; it is killed if it still runs at the end."""
    service = Service(tmp_path, orderly_namesrv, unique("group"), topic)
    yield service
    service.process.kill()
    service.process.wait()


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
    with OrderlyProducer(namesrv=orderly_namesrv) as producer:
        send_numbers(producer, topic, KEYS, EACH)
    eventually(lambda: sum(offsets_handled(service.lines).values()) > 50, SOON, every=0.05)
    service.process.send_signal(number)
    assert service.process.wait(SOON) == 0, service.errors
    lines = service.lines
    assert "running" in lines
    assert f"closing on {number.name}" in lines
    assert "closed" in lines

    handled = offsets_handled(lines)
    assert sum(handled.values()) < len(KEYS) * EACH, "it was not stopped half-way"
    queues = {n: MessageQueue(topic, "broker-a", n) for n in range(QUEUES)}
    with Client(namesrv=orderly_namesrv) as client:
        committed = {
            n: client.brokers.query_offset(service.group, queue) for n, queue in queues.items()
        }
    assert committed == {n: handled.get(n, 0) for n in queues}

    seen = Recorder()
    config = ConsumerConfig(consume_from="first")
    heir = OrderlyConsumer(service.group, seen, namesrv=orderly_namesrv, config=config)
    with heir.subscribe(topic):
        eventually(lambda: len(heir.assignment) == QUEUES, SOON)
        left = len(KEYS) * EACH - sum(handled.values())
        eventually(lambda: len(seen.deliveries) >= left, within=20)
    first = {n: min(d.offset for d in seen.deliveries if d.queue_id == n) for n in queues}
    assert first == committed, "the next member goes on exactly where this one ended"
    assert len(seen.deliveries) == left
