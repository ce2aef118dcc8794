"""A broker stands still until its connections are given up: what it reads then is in order."""

import time

import pytest

from orderly import Message, OrderlyProducer, ProducerConfig
from orderly.client import connection
from orderly.ordering.repeats import which_attempt
from orderly.testing import EmbeddedBroker
from tests.support.topics import pulled
from tests.support.waiting import await_visible, eventually, patient_client

KEYS, SILENCE = 48, 2.0
IMPATIENT = ProducerConfig(
    send_timeout=0.5, retries=1000, retry_backoff=0.001, delivery_timeout=120.0, compress_above=0
)


@pytest.fixture
def broker(orderly_broker, closing):
    return closing(EmbeddedBroker())


@pytest.mark.parametrize("size", [10, 20_000], ids=["small", "large"])
def test_no_copy_is_stored_behind_the_one_that_was_acknowledged(broker, size, monkeypatch, closing):
    """A successor can be right behind that one."""
    monkeypatch.setattr(connection, "_SILENCE", SILENCE)
    client = closing(patient_client(broker.namesrv))
    client.admin.create_topic("t", 16)
    producer = closing(OrderlyProducer(namesrv=broker.namesrv, config=IMPATIENT))
    producer.send(Message("t", b"the first connection", sharding_key="k0"))
    address = broker.broker_address
    for number in range(3):
        first = producer._client.connections.connected(address)
        broker.pause_broker()
        sent = send(producer, number, size)
        eventually(lambda first=first: not first.alive, within=30)
        time.sleep(1.0)  # so that something goes out on the next connection, too
        sent += send(producer, number + 0.5, size)
        broker.resume_broker()
        for future in sent:
            future.result(120)
    await_visible(client)
    copies = {}
    for message in pulled(client, "t"):
        name = (message.sharding_key, message.body.split()[0])
        copies.setdefault(name, []).append(which_attempt(message))
    assert max(len(found) for found in copies.values()) > 2
    assert [found for found in copies.values() if found[-1] != max(found)] == []


def send(producer, number, size):
    bodies = f"{number} " + "x" * size
    return [producer.submit(Message("t", bodies, sharding_key=f"k{key}")) for key in range(KEYS)]
