"""A program that ends and has closed nothing: that is done for it, in seconds, and what is left is
named."""

import re
import time

import pytest

from orderly import Message
from orderly.model import MessageQueue
from orderly.testing import FakeBroker
from tests.support.consuming import send_numbers, unique
from tests.support.programs import ROOT, Program
from tests.support.waiting import eventually, patient_client, patient_producer

QUEUES = 4
SOON = 30.0  # seconds: half of what a dead member's lock would last, and five times the patience


@pytest.fixture
def end(tmp_path, closing):
    """A program in one of its ways; it goes on once its file is there."""

    def begin(way, namesrv, topic, group="", queues=QUEUES):
        go = tmp_path / "go"
        arguments = [way, namesrv, topic, group, str(queues), str(go)]
        program = Program(
            ["-m", "tests.behaviour.left_open", *arguments],
            tmp_path,
            cwd=ROOT,
            PYTHONPATH=str(ROOT),
        )
        program.go_on = go.touch
        closing(program)
        return program

    return begin


@pytest.fixture
def begin(end, orderly_namesrv, topic, group, state_topics):
    """It has all queues, if it consumes."""

    def begin(way):
        state_topics(group, topic)
        program = end(way, orderly_namesrv, topic, group)
        program.says("ready")
        return program

    return begin


@pytest.fixture
def queues(topic):
    return [MessageQueue(topic, "broker-a", number) for number in range(QUEUES)]


def ended(program):
    """Whether it ends by itself, soon and well."""
    program.says("main ends")
    began = time.monotonic()
    assert program.process.wait(60) == 0, program.errors
    assert time.monotonic() - began < SOON
    return True


def events(program):
    """The names of the events that it has logged."""
    return re.findall(r"event='([\w.]+)'", program.errors)


def test_what_was_sent_is_stored(end, orderly_namesrv, topic, client, queues):
    program = end("sends", orderly_namesrv, topic)
    assert ended(program)
    assert "producer.messages_left" not in events(program)
    sent = int(program.says("sent").split()[1])
    assert sum(client.brokers.max_offset(queue) for queue in queues) >= sent


@pytest.mark.parametrize("way", ["thread", "process", "loop"])
def test_a_consumer_is_closed(way, begin, producer, topic, group, client, queues):
    sent = send_numbers(producer, topic, [f"k{number}" for number in range(20)], 1)
    ends = {}
    for result in sent:
        ends[result.queue] = max(ends.get(result.queue, 0), result.queue_offset + 1)
    program = begin(way)
    eventually(lambda: sum("handled" in line for line in program.lines) == len(sent))
    program.go_on()
    assert ended(program)
    assert "consumer.left_open" in events(program)
    assert client.brokers.lock_queues(group, "broker-a", queues) == set(queues)
    assert {queue: client.brokers.query_offset(group, queue) for queue in ends} == ends


@pytest.mark.parametrize(("way", "free"), [("thread", False), ("process", True)])
def test_a_handler_that_runs_is_named_or_its_process_killed(
    way, free, begin, producer, topic, group, client
):
    sent = producer.send(Message(topic, b"stay", sharding_key="k"))
    program = begin(way)
    program.says("stays")
    program.go_on()
    assert ended(program)
    assert ("queue.left_locked" in events(program)) is not free
    taken = client.brokers.lock_queues(group, "broker-a", [sent.queue])
    assert taken == ({sent.queue} if free else set())
    assert client.brokers.query_offset(group, sent.queue) in (None, sent.queue_offset)
    assert not {"message.dead_lettered", "key.parked"} & set(events(program))


def test_a_fork_closes_nothing_of_its_parents(begin, group, client, queues):
    program = begin("forks")
    assert program.says("child ended") == f"child ended running {QUEUES}"
    assert client.brokers.lock_queues(group, "broker-a", queues) == set()
    assert events(program) == []
    program.kill()


def test_a_child_of_multiprocessing_closes_its_own(begin, group, client, queues):
    program = begin("is a child")
    assert ended(program)
    assert "consumer.left_open" in events(program)
    assert client.brokers.lock_queues(group, "broker-a", queues) == set(queues)


def test_nothing_is_said_of_what_was_closed(begin):
    program = begin("closes")
    assert ended(program)
    assert not {"consumer.left_open", "producer.left_open"} & set(events(program))
    assert "Traceback" not in program.errors


def test_a_consumer_whose_client_was_closed_is_named(begin, topic):
    program = begin("closes the client")
    assert ended(program)
    named = [e for e in program.errors.splitlines() if "queue.left_behind" in e and topic in e]
    assert len(named) == QUEUES


def test_other_threads_of_the_program_end_first(begin, client, queues):
    program = begin("has other threads")
    assert ended(program)
    assert [line for line in program.lines if line.startswith("error")] == []
    assert sum(client.brokers.max_offset(queue) for queue in queues) == 3


# --- a broker that hangs: the fake's --------------------------------------------------------------


@pytest.fixture
def brokers(closing):
    return closing(FakeBroker(brokers=("broker-a", "broker-b")))


@pytest.fixture
def fake_topic(brokers):
    topic = unique("topic")
    brokers.create_topic(topic, QUEUES)
    return topic


def test_messages_that_are_not_stored_are_counted(end, brokers, fake_topic):
    program = end("sends after a word", brokers.namesrv, fake_topic)
    program.says("ready")
    for broker in ("broker-a", "broker-b"):
        brokers.pause_broker(broker)
    program.go_on()
    assert ended(program)
    assert {"producer.left_open", "producer.messages_left"} <= set(events(program))
    assert re.findall(r"producer.messages_left'.* messages=(\d+)", program.errors) == ["10"]


def test_queues_that_are_not_given_back_are_named_and_the_others_are(
    end, brokers, fake_topic, closing
):
    group = unique("group")
    client = closing(patient_client(brokers.namesrv))
    producer = closing(patient_producer(client=client))
    send_numbers(producer, fake_topic, [f"k{number}" for number in range(40)], 1)
    program = end("thread", brokers.namesrv, fake_topic, group, 2 * QUEUES)
    program.says("ready")
    brokers.pause_broker("broker-a")
    program.go_on()
    assert ended(program)
    lines = [e for e in program.errors.splitlines() if "queue.left_" in e and fake_topic in e]
    assert {re.findall(r" broker='([\w-]+)'", line)[0] for line in lines} == {"broker-a"}
    assert len(lines) == QUEUES
    free = [MessageQueue(fake_topic, "broker-b", number) for number in range(QUEUES)]
    assert client.brokers.lock_queues(group, "broker-b", free) == set(free)
