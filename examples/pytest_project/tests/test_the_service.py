"""The whole way through a broker: the fake one, or with --orderly-broker=embedded a real one."""

from __future__ import annotations

import json
import time

import pytest
from shipping import STEPS, service

from orderly import Message, OrderlyProducer
from orderly.monitoring.parked import ParkedMessages

ORDERS = ("order-1001", "order-1002", "order-1003")


@pytest.fixture
def send(client, orderly_topic):
    """Send a step of an order to a topic of this test's own: `send("order-1001", "packed")`."""
    topic = orderly_topic(queues=4)
    with OrderlyProducer(client=client) as producer:

        def send_one(order, step):
            body = step if isinstance(step, bytes) else json.dumps({"name": step}).encode()
            return producer.send(Message(topic, body, sharding_key=order))

        send_one.topic = topic
        yield send_one


def test_the_steps_of_an_order_come_in_order(client, carrier, send):
    told = carrier()
    for name in STEPS:
        for order in ORDERS:
            send(order, name)
    with service(client, send.topic, told):
        seen = told.next(len(STEPS) * len(ORDERS))
    for order in ORDERS:
        assert [name for key, name in seen if key == order] == list(STEPS)


def test_a_step_that_fails_holds_back_the_next_one_of_its_order(client, carrier, send):
    told = carrier(failures=2)
    for name in STEPS:
        send("order-1001", name)
    with service(client, send.topic, told):
        assert told.next(len(STEPS)) == [("order-1001", name) for name in STEPS]


def test_a_bad_order_does_not_hold_up_the_others(client, carrier, send):
    told, parked = carrier(), ParkedMessages(client, "shipping", send.topic)
    send("order-1001", b"{")
    for order in ORDERS:
        send(order, "packed")
    with service(client, send.topic, told):
        assert sorted(told.next(2)) == [("order-1002", "packed"), ("order-1003", "packed")]
        deadline = time.monotonic() + 30
        while [key.messages for key in parked.list().keys] != [2] and time.monotonic() < deadline:
            time.sleep(0.05)  # what other threads do is waited for, with an end
    assert [(key.key, key.messages) for key in parked.list().keys] == [("order-1001", 2)]
    assert told.told.empty()


def test_a_restart_repeats_nothing_and_leaves_nothing_out(client, carrier, send):
    told = carrier()
    for name in STEPS[:2]:
        send("order-1001", name)
    with service(client, send.topic, told):
        told.next(2)
    send("order-1001", STEPS[2])
    with service(client, send.topic, told):
        assert told.next(1) == [("order-1001", STEPS[2])]
    assert told.told.empty()
