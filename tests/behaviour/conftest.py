"""Fixtures of the behaviour tests: a fresh topic and group each; all is closed at the end.

A promise holds however many members share the queues: tests that take `start_group` run with as
many members as `--members` says (2, unless told otherwise; `make test-members` runs 1, 2 and 3).
"""

import os
from functools import partial

import pytest

from orderly import Client, ClientConfig, ConsumerConfig
from orderly.cli.root import run
from orderly.consumer import runtime
from orderly.consumer.session import sharding_key
from orderly.ordering.allocation import averagely
from tests.behaviour.behind_a_proxy import reason_for
from tests.support.consuming import Group, recording, unique
from tests.support.topics import ParkTopic, made_beforehand, make_state_topics
from tests.support.waiting import (
    PATIENCE,
    eventually,
    patient_client,
    patient_consumer,
    patient_producer,
)


def pytest_generate_tests(metafunc):
    if "members" in metafunc.fixturenames:
        counts = metafunc.config.getoption("--members").split(",")
        metafunc.parametrize("members", [int(count) for count in counts], ids=lambda n: f"{n}of-it")


@pytest.fixture
def group():
    return unique("group")


@pytest.fixture
def client(operator_namesrv, closing):
    """An onlooker's and operator's; members and producers have their own."""
    return closing(patient_client(operator_namesrv))


@pytest.fixture
def producer(orderly_namesrv, closing):
    return closing(patient_producer(orderly_namesrv))


@pytest.fixture
def orderly(operator_namesrv, capsys, monkeypatch):
    """Run one command line, as an operator; returns (exit code, stdout, stderr), of it alone."""
    monkeypatch.setenv("ORDERLY_REQUEST_TIMEOUT", str(PATIENCE))

    def call(*words):
        capsys.readouterr()
        code = run([*words, "--namesrv", operator_namesrv])
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


def pytest_collection_modifyitems(config, items):
    """Leave out what cannot hold behind a proxy, or run only that, to see that it does not hold."""
    if config.getoption("--orderly-broker") != "proxy":
        return
    for item in items:
        reason = reason_for(item.nodeid)
        if reason is not None and "ORDERLY_TEST_EXCUSED" in os.environ:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        elif reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif "ORDERLY_TEST_EXCUSED" in os.environ:
            item.add_marker(pytest.mark.skip(reason="only what is excused is run"))


@pytest.fixture
def behind_proxy(pytestconfig):
    """Whether clients reach the brokers through a proxy."""
    return pytestconfig.getoption("--orderly-broker") == "proxy"


@pytest.fixture(autouse=True)
def _state_topics(behind_proxy, request, monkeypatch):
    """Behind a proxy an operator makes a group's topics, before its members start."""
    if behind_proxy:
        made_beforehand(request.getfixturevalue("client"), monkeypatch)


@pytest.fixture
def state_topics(behind_proxy, client):
    """The same for members in other processes: called with a group and a topic."""
    return partial(make_state_topics, client) if behind_proxy else lambda group, topic: None


@pytest.fixture
def start_member(orderly_namesrv, topic, group, closing):
    """Start a member of the test's group; returns (consumer, recorder).

    A patient one waits for answers to its lock requests, too (`patient_client`): for tests that
    count calls.
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
        consumer = patient_consumer(
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
