"""An owner of queue 0 of `orders` on a fake broker, and an onlooker."""

from __future__ import annotations

import pytest

from orderly.monitoring.parked import ParkedMessages
from tests.support.owners import HandOwner
from tests.support.waiting import patient_client, patient_producer


@pytest.fixture
def client(orderly_fake):
    with patient_client(orderly_fake.namesrv) as client:
        yield client


@pytest.fixture
def new_owner(orderly_fake, client):
    with patient_producer(orderly_fake.namesrv) as producer:

        def make(topic="orders", by=client):
            orderly_fake.create_topic(topic, queues=1)
            return HandOwner(by, producer, "shipping", topic)

        yield make


@pytest.fixture
def owner(new_owner):
    """It has parked one, two, three of key "a", on record."""
    owner = new_owner().take()
    owner.park("a", b"one", b"two", b"three", reason="poison", attempts=2)
    owner.record()
    return owner


@pytest.fixture
def parked(client):
    return ParkedMessages(client, "shipping")
