"""The real librocketmq and two brokers, of which one refuses, is silent or is gone."""

import os

import pytest

from orderly import Client, Message
from orderly.errors import LayoutChanged, SendFailed
from orderly.native import Library, NativeOrderlyProducer
from orderly.native.library import VARIABLE
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.selectors import hash_mod, parse_layout, queues_of
from orderly.testing import FakeBroker
from orderly.testing.fake.faults import DropResponse, Fail, Fault
from tests.support.topics import pulled

TOPIC = "orders"
PIN = "broker-a:2;broker-b:2"
SEND = RequestCode.SEND_MESSAGE_V2


@pytest.fixture
def brokers():
    with FakeBroker(brokers=("broker-b", "broker-a")) as brokers:
        brokers.create_topic(TOPIC, queues=2)
        yield brokers


@pytest.fixture
def producer(brokers):
    library = Library(os.environ[VARIABLE])
    settings = {"namesrv": brokers.namesrv, "layout": PIN, "send_timeout": 2}
    with NativeOrderlyProducer(library=library, **settings) as producer:
        yield producer


def stored(brokers):
    """What the topic holds: broker and queue id -> bodies."""
    found = {}
    with Client(namesrv=brokers.namesrv) as client:
        for message in pulled(client, TOPIC):
            at = message.queue.broker_name, message.queue.queue_id
            found.setdefault(at, []).append(message.body)
    return found


def test_keys_are_spread_over_the_brokers_as_our_selectors_count_them(brokers, producer):
    expected = {}
    for key in (f"order-{number}" for number in range(12)):
        message = Message(TOPIC, key.encode(), sharding_key=key)
        queue = hash_mod(queues_of(parse_layout(PIN), TOPIC), message, key)
        assert producer.send(message).queue == queue
        expected.setdefault((queue.broker_name, queue.queue_id), []).append(message.body)
    assert stored(brokers) == expected
    assert len(expected) == 4


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_ERROR, ResponseCode.SYSTEM_BUSY])
def test_a_refused_send_is_tried_nowhere_else(brokers, producer, code):
    brokers.script(Fault(SEND, Fail(code)))
    with pytest.raises(SendFailed):
        producer.send(Message(TOPIC, b"1", sharding_key="a"))
    assert stored(brokers) == {}
    producer.send(Message(TOPIC, b"1", sharding_key="a"))
    assert stored(brokers) == {("broker-a", 1): [b"1"]}


def test_a_send_without_an_answer_is_stored_once_at_most(brokers, producer):
    brokers.script(Fault(SEND, DropResponse()))
    with pytest.raises(SendFailed, match="may be stored"):
        producer.send(Message(TOPIC, b"1", sharding_key="a"))
    assert stored(brokers) == {("broker-a", 1): [b"1"]}


def test_retries_would_have_moved_it_to_the_other_broker(brokers, producer, monkeypatch):
    monkeypatch.setattr("orderly.native.producer._NO_RETRIES", 1)
    brokers.script(Fault(SEND, Fail(ResponseCode.SYSTEM_ERROR)))
    producer.send(Message(TOPIC, b"1", sharding_key="a"))
    [(broker, _)] = stored(brokers)
    assert broker == "broker-b"


def test_nothing_is_sent_while_a_broker_is_gone(brokers, producer):
    brokers.kill_broker("broker-b")
    with pytest.raises(LayoutChanged, match="2 queues but this producer is pinned to 4"):
        producer.send(Message(TOPIC, b"1", sharding_key="a"))
    assert stored(brokers) == {}
