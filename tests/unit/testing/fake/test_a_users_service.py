"""How the tests of a user's own service use the fake broker, and that it is quick."""

import threading
import time

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, OrderlyProducer
from orderly.protocol.codes import RequestCode
from orderly.testing import DropResponse, Fault

SOON = 30.0


class ShippingService:
    """What a user tests: it ships each order once, in the order of its events."""

    def __init__(self, namesrv):
        self.shipped, self.arrived = [], threading.Event()
        config = ConsumerConfig(consume_from="first")
        self.consumer = OrderlyConsumer("shipping", self.handle, namesrv=namesrv, config=config)

    def handle(self, messages, context):
        self.shipped += [message.body.decode() for message in messages]
        self.arrived.set()
        return ConsumeResult.SUCCESS


@pytest.fixture
def service(orderly_fake):
    orderly_fake.create_topic("orders", queues=4)
    service = ShippingService(orderly_fake.namesrv)
    with service.consumer.subscribe("orders"):
        yield service


@pytest.fixture
def producer(orderly_fake):
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        yield producer


def test_an_order_is_shipped(service, producer):
    producer.send(Message("orders", b"paid", sharding_key="order-1"))
    assert service.arrived.wait(SOON)
    assert service.shipped == ["paid"]


def test_a_send_whose_answer_was_lost_is_repeated(service, producer, orderly_fake):
    lost = Fault(RequestCode.SEND_MESSAGE_V2, DropResponse())
    orderly_fake.script(lost)
    producer.send(Message("orders", b"paid", sharding_key="order-1"), timeout=SOON)
    assert service.arrived.wait(SOON)
    assert set(service.shipped) == {"paid"}


def test_a_broker_a_topic_and_a_first_message_take_no_time(orderly_fake, record_property):
    began = time.perf_counter()
    orderly_fake.create_topic("orders", queues=4)
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        producer.send(Message("orders", b"paid", sharding_key="order-1"))
        service = ShippingService(orderly_fake.namesrv)
        with service.consumer.subscribe("orders"):
            assert service.arrived.wait(SOON)
            took = time.perf_counter() - began
    print(f"{took * 1000:.1f} ms from no topic to the first message")
    assert took < 10.0, "some 50 ms on an idle machine"
