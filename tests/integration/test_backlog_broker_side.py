"""What a broker does to a group's backlog by itself, and counts: it deletes, pops, has metrics.

A broker with tiny log files, so that old ones can be taken away; with POP, and with its metrics.
"""

import time
import urllib.request
from dataclasses import replace

import pytest

from orderly import Message
from orderly.cli.root import run
from orderly.namespace import RETRY_PREFIX
from orderly.protocol.frame import request
from orderly.testing import EmbeddedBroker
from orderly.testing.ports import free_port
from tests.support.consuming import unique
from tests.support.snapshots import PATIENT, Surveyed, states_of, verdict_of
from tests.support.waiting import (
    PATIENCE,
    await_visible,
    eventually,
    patient_client,
    patient_producer,
)

pytestmark = pytest.mark.usefixtures("orderly_broker")  # whether there is a broker, and Java

POP, ACK = 200050, 200051
KIB = 1024


@pytest.fixture(scope="module")
def metrics_port():
    return free_port()


@pytest.fixture(scope="module")
def broker(metrics_port):
    settings = {
        "mappedFileSizeCommitLog": str(64 * KIB),
        "timerWheelEnable": "true",  # POP needs it
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "127.0.0.1",
        "metricsPromExporterPort": str(metrics_port),
    }
    with EmbeddedBroker(broker_properties=settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(broker):
    with patient_client(broker.namesrv) as client:
        yield client


@pytest.fixture(scope="module")
def producer(client):
    with patient_producer(client=client) as producer:
        yield producer


@pytest.fixture(scope="module")
def new(client):
    """Make a topic of so many queues, and name a group."""

    def new(queues):
        surveyed = Surveyed(client, unique("group"), unique("topic"))
        client.admin.create_topic(surveyed.topic, queues)
        return surveyed

    return new


def pop(surveyed, count, *, order=False, invisible=60.0):
    """Take messages of queue 0 as a POP consumer does; returns what acknowledges each."""
    fields = {
        "consumerGroup": surveyed.group, "topic": surveyed.topic, "queueId": 0,
        "maxMsgNums": count, "invisibleTime": int(invisible * 1000), "pollTime": 0,
        "bornTime": int(time.time() * 1000), "initMode": 0, "expType": "TAG", "exp": "*",
        "order": str(order).lower(),
    }  # fmt: skip
    ext = ask(surveyed, POP, fields).ext
    start = int(ext["startOffsetInfo"].split()[-1])
    handle = f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a 0"
    return [(start + number, f"{handle} {start + number}") for number in range(count)]


def acknowledge(surveyed, offset, extra):
    fields = {"consumerGroup": surveyed.group, "topic": surveyed.topic, "queueId": 0,
              "offset": offset, "extraInfo": extra}  # fmt: skip
    ask(surveyed, ACK, fields)


def ask(surveyed, code, fields):
    address = surveyed.client.routes.address(surveyed.queue(0))
    command = request(code, {name: str(value) for name, value in fields.items()})
    reply = surveyed.client.connections.get(address).call(command, PATIENCE)
    assert reply.code == 0, reply.remark
    return reply


@pytest.fixture(scope="module")
def failed(new, producer, expired):
    """A message popped and never acknowledged: some seconds later it is in a retry topic."""
    failed = new(1)
    failed.send(producer, 0, 1)
    failed.commit(0)
    pop(failed, 1, invisible=1.0)
    return failed


@pytest.fixture(scope="module")
def expired(broker, client, new, producer):
    """Two queues whose first messages the broker has deleted."""
    expired = new(2)
    for number in range(160):
        message = Message(expired.topic, b"x" * KIB)
        producer.send(message, selector=lambda queues, _, n: queues[n % 2], arg=number)
    await_visible(client)
    broker.kill_broker()
    files = sorted((broker.directory / "store" / "commitlog").iterdir())
    assert len(files) > 3
    for file in files[:2]:
        file.unlink()
    broker.restart_broker()
    brokers, queues = client.brokers, [expired.queue(number) for number in range(2)]
    eventually(lambda: all(brokers.min_offset(queue) > 10 for queue in queues))
    eventually(lambda: all(brokers.max_offset(queue) == 80 for queue in queues))
    return expired


def test_what_was_deleted_before_it_was_consumed_is_lost_and_the_rest_is_the_backlog(expired):
    start, end = expired.client.brokers.min_offset(expired.queue(0)), 80
    expired.commit(4, start + 5)
    status = expired.status()
    lost, well = status.topics[expired.topic].rows()
    assert (lost.state.name, lost.lost, lost.backlog) == ("LOST", start - 4, end - start)
    assert lost.head_age is None, "303 answers with the time of day for it"
    assert lost.head.offset == start, "the oldest that is left"
    assert f"{start - 4} messages deleted" in lost.cause
    assert (well.lost, well.backlog) == (0, end - start - 5)
    assert 0 <= well.head_age < 600
    assert (status.sums.lost, status.sums.backlog) == (start - 4, 2 * (end - start) - 5)
    assert verdict_of(status) == "CRITICAL"


def test_deleted_messages_in_a_queue_never_committed_are_nobodys_loss(expired):
    group = Surveyed(expired.client, unique("group"), expired.topic)
    start = expired.client.brokers.min_offset(expired.queue(0))
    group.commit(start)
    status = group.status()
    assert states_of(status.topics[group.topic].rows()) == ["OFFLINE", "NEW"]
    assert status.sums.lost == 0


def test_without_reading_the_log_the_same_is_lost(expired):
    expired.commit(4, 80)
    warm = expired.status()
    cold = expired.status(settings=replace(PATIENT, cold_safe=True))
    assert (cold.sums.lost, cold.sums.states) == (warm.sums.lost, warm.sums.states)


def test_the_backlog_of_pop_in_order_is_exact_and_otherwise_what_nobody_has_taken(new, producer):
    ordered, loose = new(1), new(1)
    for surveyed in (ordered, loose):
        surveyed.commit(0)
        surveyed.send(producer, 0, 10)
    taken = pop(ordered, 4, order=True)
    assert ordered.status().sums.backlog == 10, "4 are in somebody's hands"
    for offset, extra in taken[:2]:
        acknowledge(ordered, offset, extra)
    assert eventually(lambda: ordered.status().sums.backlog == 8)
    pop(loose, 4)
    assert eventually(lambda: loose.status().sums.backlog == 6), "no word of the 4"


def test_scans_add_nothing_to_what_the_broker_counts_of_consumers(
    broker, metrics_port, new, producer, failed
):
    surveyed = new(2)
    surveyed.send(producer, 0, 3)
    surveyed.commit(0, 0)
    surveyed.join("member@1")

    def counted():
        """The series that name a group, counters with values; without POP's, which goes on."""
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        named = [
            line.rpartition("} ")
            for line in lines
            if "consumer_group=" in line
            and failed.group not in line
            and "CID_RMQ_SYS_REVIVE_GROUP" not in line
            and not line.startswith("rocketmq_pop_")
        ]  # before 5.4 a time follows the value
        return {name: rest.split()[0] if "_total{" in name else "" for name, _, rest in named}

    before = eventually(lambda: (found := counted()) and surveyed.group in str(found) and found)
    for command in (
        ("backlog", "describe", surveyed.group),
        ("backlog", "check", surveyed.group, "--quiet"),
        ("backlog", "list", "-o", "json"),
        ("locks", surveyed.group),
        ("backlog", "list", "-o", "prometheus"),
    ):
        run([*command, "--namesrv", broker.namesrv])
    for _ in range(3):
        assert next(surveyed.status().rows()).head is not None, "it looked closely"
    assert counted() == before


def test_what_pop_gives_up_is_the_groups_own_line(failed):
    retries = f"{RETRY_PREFIX}{failed.group}_{failed.topic}"

    def given_up():
        topics = failed.status().topics
        return retries in topics and topics[retries].sums.backlog and topics

    topics = eventually(given_up, 90, every=0.2)
    assert topics[failed.topic].sums.backlog == 0
    assert topics[retries].sums.backlog == 1
