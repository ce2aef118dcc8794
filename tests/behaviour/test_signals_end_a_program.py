"""SIGTERM and Ctrl-C: a program that waits for its consumers ends cleanly, all of them at once."""

import os
import signal
import time

import pytest

from orderly import Ack, ConsumerConfig, Message
from orderly.model import MessageQueue
from tests.support.consuming import Recorder, unique
from tests.support.programs import ROOT, Program
from tests.support.waiting import eventually, patient_consumer

QUEUES = 4
SOON = 30.0  # seconds: half of what a dead member's lock would last
TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.fixture
def start(tmp_path, topic, orderly_namesrv, closing, state_topics):
    """Start the program in one of its ways; returns it once its consumers have all queues."""

    def start(way, groups):
        for group in groups:
            state_topics(group, topic)
        arguments = ["-m", "tests.behaviour.told_to_end", way, orderly_namesrv, topic, *groups]
        program = Program(arguments, tmp_path, cwd=ROOT, PYTHONPATH=str(ROOT))
        closing(program)
        program.says("ready")
        return program

    return start


@pytest.fixture
def groups():
    return [unique("group"), unique("group")]


@pytest.fixture
def send(producer, topic):
    """Send a message; its handler runs until that file is there. Returns where it is stored."""

    def send(body="/"):
        return producer.send(Message(topic, str(body).encode(), sharding_key="k"))

    return send


@pytest.fixture
def free(client, topic):
    """Whether nobody holds a queue of these groups; the test's own client takes them."""
    queues = [MessageQueue(topic, "broker-a", number) for number in range(QUEUES)]

    def free(*groups):
        return all(
            client.brokers.lock_queues(group, "broker-a", queues) == set(queues) for group in groups
        )

    return free


@pytest.mark.parametrize("number", [TERM, INT])
def test_the_next_member_goes_on_at_once(
    start, send, group, topic, client, number, orderly_namesrv, closing
):
    program = start("wait", [group])
    sent = send()
    program.says("ended")
    assert program.end(number) == 0, program.errors
    assert {"waited True", "put back True", "states closed"} <= set(program.lines)
    assert program.errors == ""
    assert client.brokers.query_offset(group, sent.queue) == sent.queue_offset + 1

    seen, began = Recorder(lambda *_: Ack()), time.monotonic()
    config = ConsumerConfig(order="key")
    heir = patient_consumer(group, seen, namesrv=orderly_namesrv, config=config)
    closing(heir.subscribe(topic))
    last = send(body="7")
    eventually(lambda: seen.deliveries)
    assert time.monotonic() - began < SOON
    assert [(d.number, d.offset) for d in seen.deliveries] == [(7, last.queue_offset)]


@pytest.mark.parametrize("way", ["wait", "each", "run"])
def test_one_signal_closes_all_consumers(start, free, groups, way):
    program = start(way, groups)
    assert program.end(TERM) == 0, program.errors
    assert {"put back True", "states closed closed"} <= set(program.lines)
    assert program.errors == ""
    assert free(*groups)


def test_a_running_handler_ends_first(start, send, client, group, tmp_path):
    program, sent = start("wait", [group]), send(tmp_path / "go")
    program.says("begins")
    its_call_ends_first(program, TERM, sent, tmp_path)
    assert client.brokers.query_offset(group, sent.queue) == sent.queue_offset + 1


def its_call_ends_first(program, number, sent, tmp_path):
    """Signal it while its handler waits for the file "go", and let that go."""
    program.process.send_signal(number)
    program.says("closing")
    (tmp_path / "go").touch()
    assert program.process.wait(SOON) == 0, program.errors
    assert f"ended {sent.queue_offset}" in program.lines


@pytest.mark.parametrize(("way", "second"), [("wait", TERM), ("wait", INT), ("bare run", TERM)])
def test_a_second_signal_ends_the_process(start, send, group, tmp_path, way, second):
    program = start(way, [group])
    send(tmp_path / "never")
    program.says("begins")
    program.process.send_signal(TERM)
    program.says("closing")
    assert program.end(second) == -second
    assert not [line for line in program.lines if "ended" in line or "states" in line]


@pytest.mark.parametrize("number", [TERM, INT])
def test_worker_processes_finish_their_call(start, send, client, group, tmp_path, number):
    program, sent = start("processes", [group]), send(tmp_path / "go")
    worker = int(program.says("begins").split()[2])
    os.kill(worker, number)  # a terminal, or systemd, tells the whole process group
    its_call_ends_first(program, number, sent, tmp_path)
    assert client.brokers.query_offset(group, sent.queue) == sent.queue_offset + 1


# --- in an asyncio program ---------------------------------------------------------------------


def test_a_run_alone_ends_cleanly(start, free, group):
    program = start("bare run", [group])
    assert program.end(TERM) == 0, program.errors
    assert "states closed" in program.lines
    assert program.errors == ""
    assert free(group)


def test_ctrl_c_cancels_a_run_which_closes(start, free, group):
    program = start("bare run", [group])
    assert program.end(INT) == -INT
    assert "KeyboardInterrupt" in program.errors, "as asyncio.run ends every program"
    assert free(group)


# --- a host that deals with signals itself -----------------------------------------------------


@pytest.mark.parametrize(("way", "code"), [("own", 0), ("loop", -INT)])
def test_a_host_s_own_handler_stays(start, free, group, way, code):
    program = start(way, [group])
    program.process.send_signal(TERM)
    program.says("mine SIGTERM")
    program.process.send_signal(TERM)
    eventually(lambda: program.lines.count("mine SIGTERM") == 2)
    assert "closing" not in program.lines
    assert program.end(INT) == code, program.errors
    assert free(group)


def test_turned_off_a_signal_does_what_it_did(start, group):
    program = start("off", [group])
    assert program.end(TERM) == -TERM
    assert "closing" not in program.lines
