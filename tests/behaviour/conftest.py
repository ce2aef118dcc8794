"""Fixtures of the behaviour tests: a fresh topic and group each; all is closed at the end.

A promise holds however many members share the queues: tests that take `start_group` run with as
many members as `--members` says (2, unless told otherwise; `make test-members` runs 1, 2 and 3).
"""

import pytest

from orderly import Client, ClientConfig, ConsumerConfig, OrderlyConsumer
from orderly.cli.root import run
from orderly.consumer import runtime
from orderly.consumer.session import sharding_key
from orderly.ordering.allocation import averagely
from tests.support.consuming import Group, recording, unique
from tests.support.topics import ParkTopic
from tests.support.waiting import eventually, patient_client, patient_producer


def pytest_generate_tests(metafunc):
    if "members" in metafunc.fixturenames:
        counts = metafunc.config.getoption("--members").split(",")
        metafunc.parametrize("members", [int(count) for count in counts], ids=lambda n: f"{n}of-it")


@pytest.fixture
def group():
    return unique("group")


@pytest.fixture
def client(orderly_namesrv, closing):
    return closing(patient_client(orderly_namesrv))


@pytest.fixture
def producer(orderly_namesrv, closing):
    return closing(patient_producer(orderly_namesrv))


@pytest.fixture
def orderly(orderly_namesrv, capsys):
    """Run one command line; returns (exit code, stdout, stderr), of it alone."""

    def call(*words):
        capsys.readouterr()
        code = run([*words, "--namesrv", orderly_namesrv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=4)


@pytest.fixture
def parks(client, group, topic, monkeypatch):
    """The group's park topic; owners look there for commands more often than once a second."""
    monkeypatch.setattr(runtime, "COMMANDS_INTERVAL", 0.1)
    return ParkTopic(client, group, topic)


@pytest.fixture
def start_member(orderly_namesrv, topic, group, closing):
    """Start a member of the test's group; returns (consumer, recorder).

    A patient one waits for every answer (`patient_client`): for tests that count calls.
    """

    def start(
        act=None,
        *,
        tags="*",
        sql=None,
        recorder=None,
        hooks=None,
        allocate=averagely,
        route_interval=None,
        secrets="",
        key=sharding_key,
        patient=False,
        **settings,
    ):
        recorder = recorder or recording(act)
        config = ConsumerConfig(**{"consume_from": "first", "rebalance_interval": 5} | settings)
        known = {"namesrv": orderly_namesrv}
        if route_interval is not None:
            known["route_interval"] = route_interval
        if secrets:
            known["record_secrets"] = secrets
        if patient:
            known = {"client": closing(patient_client(**known))}
        elif len(known) > 1:
            known = {"client": closing(Client(ClientConfig(**known)))}
        consumer = OrderlyConsumer(
            group, recorder, config=config, hooks=hooks, allocate=allocate, key=key, **known
        )
        closing(consumer.subscribe(topic, tags, sql=sql))
        return consumer, recorder

    return start


@pytest.fixture
def start_group(start_member, members):
    """Start all members of the test's group, sharing one recorder; returns once they are settled.

    Settled: every queue of the topic has its owner, and each member its share.
    """

    def start(act=None, *, queues=4, **settings):
        recorder = recording(act)
        consumers = [start_member(recorder=recorder, **settings)[0] for _ in range(members)]
        group = Group(consumers, recorder)
        eventually(lambda: group.settled(queues), within=30)
        return group

    return start
