"""A topic's skew, measured on two fake brokers: figures, bounds, and no trace."""

import itertools
import time

import pytest

from orderly import Message, OrderlyProducer
from orderly.errors import TopicNotFound
from orderly.monitoring.collecting.topic_sample import SampleSettings, look_at_topic
from orderly.monitoring.skew.inflow import ENOUGH, Basis
from orderly.protocol.codes import RequestCode as Code
from orderly.testing.fake.faults import DropResponse, Fail, Fault

READS = {
    Code.GET_ROUTEINFO_BY_TOPIC,
    Code.GET_TOPIC_STATS_INFO,
    Code.QUERY_CONSUME_QUEUE,
    Code.VIEW_MESSAGE_BY_ID,
    Code.SEARCH_OFFSET_BY_TIMESTAMP,
}


@pytest.fixture
def send(fakes, world):
    """Topic `orders` of two queues on each broker; sends messages with these keys."""
    world.topic("orders")
    with OrderlyProducer(namesrv=fakes.namesrv) as producer:

        def send(*keys):
            for key in keys:
                producer.send(Message("orders", b"x", sharding_key=key))

        yield send


def look(client, tell=lambda *_: None, **settings):
    return look_at_topic(client, "orders", SampleSettings(**({"interval": 0.01} | settings)), tell)


def test_what_is_stored_stands_for_what_comes_into_a_quiet_topic(send, client):
    send(*["hot"] * 60, *map(str, range(40)))
    found = look(client, what_if=(8,))
    assert found.inflow.basis is Basis.STORED
    assert (found.inflow.total, found.planned, found.keys.messages) == (100, 100, 100)
    assert (found.keys.top[0].key, found.keys.top[0].least) == ("hot", 60)
    assert found.inflow.messages[found.keys.top[0].queue] >= 60
    assert found.keys.present.moved == 0.0, "our producer uses hash_mod"
    assert [outcome.queues for outcome in found.keys.outcomes if outcome.skew] == [4, 8]
    assert found.errors == {}


def test_what_comes_between_two_looks_is_counted(send, client, world, monkeypatch):
    world.store("orders", 0, 10)
    sleep = time.sleep

    def busy(seconds):
        world.store("orders", 1, 5 * ENOUGH, broker="broker-b")
        sleep(seconds)

    monkeypatch.setattr("orderly.monitoring.collecting.topic_sample.time.sleep", busy)
    found = look(client, sample=10)
    assert found.inflow.basis is Basis.MEASURED
    assert found.inflow.seconds >= 0.01
    assert found.inflow.total == 5 * ENOUGH
    assert str(found.inflow.skew.busiest) == "orders/broker-b/1"
    assert (found.keys.messages, found.keys.keyless) == (10, 10)


def test_only_the_messages_since_a_time_are_looked_at(send, client, world):
    world.store("orders", 0, 50)  # years ago
    send("new", "new")
    found = look(client, since=3600.0)
    assert (found.inflow.basis, found.inflow.seconds) == (Basis.SINCE, 3600.0)
    assert (found.inflow.total, found.keys.messages, found.keys.keyless) == (2, 2, 0)


def test_it_is_bounded_and_only_reads(send, client, world):
    send(*map(str, range(300)))
    counts = world.count()
    told = []
    found = look(client, tell=lambda *at: told.append(at), sample=100)
    assert found.keys.messages == 100
    assert told[0] == (1, 100)
    assert told[-1] == (100, 100)
    assert counts.keys() <= READS
    assert counts[Code.VIEW_MESSAGE_BY_ID] == 100
    assert counts[Code.QUERY_CONSUME_QUEUE] <= 8
    assert counts[Code.GET_TOPIC_STATS_INFO] == 4


def test_time_is_bounded_too_and_what_was_read_counts(send, client, world, fakes):
    world.store("orders", 0, 200)
    asked = itertools.count(1)
    silent = Fault(
        Code.VIEW_MESSAGE_BY_ID, DropResponse(), times=None, when=lambda _: next(asked) > 40
    )
    fakes.script(silent)
    began = time.monotonic()
    found = look(client, timeout=2.5, sample=200)  # less than a broker is waited for
    assert time.monotonic() - began < 60.0, "two looks, and the messages"
    assert (found.planned, found.keys.messages) == (200, 40)
    assert found.errors == {}, "out of time is no failure"


def test_a_message_that_is_gone_meanwhile_is_left_out(send, client, fakes):
    send("a", "a", "a")
    fakes.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(1, "can not find message")))
    found = look(client)
    assert (found.planned, found.keys.messages, found.errors) == (3, 2, {})


def test_a_broker_that_does_not_answer_is_named_and_its_queues_are_not_known(send, client, fakes):
    send(*map(str, range(20)))
    lost = Fault(Code.GET_TOPIC_STATS_INFO, DropResponse(), times=None)
    fakes.script(lost)
    found = look(client, timeout=1.5)
    assert found.errors.keys() == {"broker-a", "broker-b"}
    assert set(found.inflow.messages.values()) == {None}
    assert found.inflow.skew is None
    assert found.keys.messages == 0


def test_a_topic_without_messages_and_one_that_is_not_there(send, client):
    found = look(client)
    assert (found.inflow.total, found.keys.messages, found.planned) == (0, 0, 0)
    with pytest.raises(TopicNotFound):
        look_at_topic(client, "no-such-topic", SampleSettings())
