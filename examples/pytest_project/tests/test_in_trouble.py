"""Faults on demand; each test has a fake broker of its own."""

from __future__ import annotations

import pytest
from shipping import service

from orderly import Client, Message, OrderlyProducer, ProducerConfig
from orderly.errors import PrecedingSendFailed, SendFailed
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.testing import DropResponse, Fail, Fault

PACKED = Message("orders", b'{"name": "packed"}', sharding_key="order-1001")
SHIPPED = Message("orders", b'{"name": "shipped"}', sharding_key="order-1001")


@pytest.fixture
def client(orderly_fake):
    """A client of the fake broker, which has a topic."""
    orderly_fake.create_topic("orders", queues=4)
    with Client(namesrv=orderly_fake.namesrv) as client:
        yield client


def test_a_busy_broker_is_asked_again(orderly_fake, client):
    busy = Fail(ResponseCode.SYSTEM_BUSY)
    orderly_fake.script(Fault(RequestCode.SEND_MESSAGE_V2, busy, times=2))
    with OrderlyProducer(client=client) as producer:
        assert producer.send(PACKED).queue_offset == 0


def test_a_failed_send_holds_back_the_next_one_of_its_order(orderly_fake, client):
    orderly_fake.script(Fault(RequestCode.SEND_MESSAGE_V2, Fail(ResponseCode.NO_PERMISSION)))
    with OrderlyProducer(client=client) as producer:
        with pytest.raises(SendFailed):
            producer.send(PACKED)
        with pytest.raises(PrecedingSendFailed):
            producer.send(PACKED)
        producer.resume("order-1001")
        assert producer.send(PACKED).queue_offset == 0


def test_a_lost_answer_stores_a_message_twice_and_the_handler_gets_it_once(
    orderly_fake, client, carrier
):
    orderly_fake.script(Fault(RequestCode.SEND_MESSAGE_V2, DropResponse()))
    told, config = carrier(), ProducerConfig(send_timeout=0.2)
    with OrderlyProducer(client=client, config=config) as producer:
        assert producer.send(PACKED).queue_offset == 1  # the second copy
        producer.send(SHIPPED)
    with service(client, "orders", told):
        assert told.next(2) == [("order-1001", "packed"), ("order-1001", "shipped")]
