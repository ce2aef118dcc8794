"""Every selector of ours decides the queue, through librocketmq's callback."""

import sys

import pytest

from orderly import Message
from orderly.errors import ConfigError, LayoutChanged
from orderly.protocol.java_string import java_string_hash
from orderly.selectors import numeric_mod, single_queue

KEYS = [f"order-{n}" for n in range(12)] + ["polygenelubricants", "ключ", "键", "🙂"]


def test_each_key_is_in_its_queue_in_order(world):
    topic, producer = world.topic(4), world.producer()
    for number in range(2):
        for key in KEYS:
            result = producer.send(Message(topic, f"{key}/{number}".encode(), sharding_key=key))
            assert result.queue.queue_id == abs(java_string_hash(key)) % 4
    stored = world.stored(topic)
    for queue, messages in stored.items():
        mine = [key for key in KEYS if abs(java_string_hash(key)) % 4 == queue]
        expected = [f"{key}/{number}".encode() for number in range(2) for key in mine]
        assert [body for body, _ in messages] == expected
        assert {properties["__SHARDINGKEY"] for _, properties in messages} == set(mine)


@pytest.mark.parametrize(
    ("selector", "key", "queue"),
    [
        (numeric_mod, 7, 3),
        (numeric_mod, -1, 3),
        (single_queue, "any", 0),
        (lambda queues, _message, arg: queues[arg == "last" and -1], "last", 3),
    ],
    ids=["number", "below 0", "one queue", "the user's own"],
)
def test_any_selector_may_decide(world, selector, key, queue):
    topic, producer = world.topic(4), world.producer()
    sent = producer.send(Message(topic, b"x", sharding_key=key), selector=selector)
    assert (sent.queue.queue_id, sent.queue_offset) == (queue, 0)
    assert list(world.stored(topic)) == [queue]


def test_without_a_key_messages_are_spread(world):
    topic, producer = world.topic(4), world.producer()
    for number in range(8):
        producer.send(Message(topic, str(number).encode()))
    assert {queue: len(found) for queue, found in world.stored(topic).items()} == dict.fromkeys(
        range(4), 2
    )


@pytest.mark.parametrize(
    "selector",
    [lambda *_: 1 / 0, lambda *_: None, lambda queues, *_: queues[99], lambda *_: sys.exit()],
    ids=["raises", "answers nothing", "out of range", "exits"],
)
def test_what_a_selector_does_wrong_stores_nothing(world, selector):
    topic, producer = world.topic(4), world.producer()
    with pytest.raises((ZeroDivisionError, ConfigError, IndexError, SystemExit)):
        producer.send(Message(topic, b"x", sharding_key="a"), selector=selector)
    assert world.stored(topic) == {}
    producer.send(Message(topic, b"y", sharding_key="a"))
    assert [body for found in world.stored(topic).values() for body, _ in found] == [b"y"]


@pytest.mark.parametrize("layout", ["strict", "broker-a:4"])
def test_a_key_does_not_move_when_a_queue_is_gone(stub, layout):
    producer = stub.producer(layout=layout)
    topic = stub.topic(4)
    producer.send(Message(topic, b"1", sharding_key="a"))
    stub.resize(topic, 3)
    with pytest.raises(LayoutChanged, match="3 queues but this producer is pinned to 4"):
        producer.send(Message(topic, b"2", sharding_key="a"))
    stub.resize(topic, 4)
    result = producer.send(Message(topic, b"2", sharding_key="a"))
    assert result.queue.broker_name == ("" if layout == "strict" else "broker-a")
    assert [[body for body, _ in found] for found in stub.stored(topic).values()] == [[b"1", b"2"]]


def test_a_loose_layout_follows(stub):
    producer = stub.producer(layout="loose")
    topic = stub.topic(4)
    producer.send(Message(topic, b"1", sharding_key="a"))
    stub.resize(topic, 3)
    assert producer.send(Message(topic, b"2", sharding_key="a")).queue.queue_id == 97 % 3
