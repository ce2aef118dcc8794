"""Fixtures of the behaviour tests: a fresh topic and group each; all is closed at the end."""

import contextlib

import pytest

from orderly import ConsumerConfig, OrderlyConsumer, OrderlyProducer
from tests.support.consuming import Recorder, unique


@pytest.fixture
def closing():
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def group():
    return unique("group")


@pytest.fixture
def producer(orderly_namesrv, closing):
    return closing(OrderlyProducer(namesrv=orderly_namesrv))


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=4)


@pytest.fixture
def start_member(orderly_namesrv, topic, group, closing):
    """Start a member of the test's group; returns (consumer, recorder)."""

    def start(act=None, *, tags="*", **settings):
        recorder = Recorder(act)
        config = ConsumerConfig(**{"consume_from": "first", "rebalance_interval": 5} | settings)
        consumer = OrderlyConsumer(group, recorder, namesrv=orderly_namesrv, config=config)
        closing(consumer.subscribe(topic, tags))
        return consumer, recorder

    return start
