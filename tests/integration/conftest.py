"""Fixtures of the integration tests: clients of the session's broker, closed at the end."""

import pytest

from orderly.cli.root import run
from orderly.model import MessageQueue
from tests.support.consuming import unique
from tests.support.patient import patient_client, patient_producer


@pytest.fixture
def orderly(orderly_namesrv, capsys):
    """Run one command line; returns (exit code, stdout, stderr)."""

    def call(*args):
        code = run([*args, "--namesrv", orderly_namesrv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def client(orderly_namesrv):
    with patient_client(orderly_namesrv) as client:
        yield client


@pytest.fixture
def producer(orderly_namesrv):
    with patient_producer(orderly_namesrv) as producer:
        yield producer


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def queue(topic):
    return MessageQueue(topic, "broker-a", 0)


@pytest.fixture
def group():
    return unique("group")
