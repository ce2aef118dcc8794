"""A program that stands still for longer than its handlers may run accuses none of them."""

import os
import signal
import time

import pytest

from orderly import Message
from tests.support.programs import ROOT, Program
from tests.support.waiting import eventually

COUNT = 4
LONGER = 2.0  # seconds
ACCUSED = {"handler.hung", "handler.raised", "worker.died", "process.exits", "lock.lost"}


@pytest.fixture
def start(tmp_path, topic, group, orderly_namesrv, state_topics):
    started = []

    def start(way, limit):
        state_topics(group, topic)
        arguments = ["-m", "tests.behaviour.standing_still", way, limit]
        arguments += [orderly_namesrv, topic, group]
        started.append(Program(arguments, tmp_path, cwd=ROOT, PYTHONPATH=str(ROOT)))
        return started[0]

    yield start
    for program in started:
        program.kill()


def begun(program):
    """Of each call that began: process, offset, attempt."""
    lines = [line.split() for line in program.lines]
    return [tuple(map(int, words[1:])) for words in lines if words[0] == "begins"]


def ended(program):
    return [line for line in program.lines if line.startswith("ended")]


def stand_still(processes, seconds):
    """As a container without CPU, or a virtual machine that is moved."""
    since = time.monotonic()
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    eventually(lambda: time.monotonic() > since + seconds)
    for process in processes:
        os.kill(process, signal.SIGCONT)


# Seconds that a handler may run. Of a worker process its start counts.
@pytest.mark.parametrize(("way", "limit"), [("exit", 4.0), ("loop", 4.0), ("processes", 15.0)])
def test_its_handlers_go_on_and_nothing_is_tried_again(start, topic, producer, way, limit):
    program = start(way, limit)
    for number in range(COUNT):
        key = f"k{number % 2}"
        producer.send(Message(topic, b"x", sharding_key=key), selector=lambda queues, *_: queues[0])
    eventually(lambda: len(begun(program)) > len(ended(program)))
    stand_still({program.process.pid} | {process for process, *_ in begun(program)}, limit + LONGER)
    eventually(lambda: len(ended(program)) >= COUNT)
    assert program.end() == 0, program.errors
    assert sorted(call[1:] for call in begun(program)) == [(at, 1) for at in range(COUNT)]
    events = {line.split()[1] for line in program.lines if line.startswith("event")}
    assert not events & ACCUSED
