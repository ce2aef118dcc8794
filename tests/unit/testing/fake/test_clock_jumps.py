"""The cluster's wall clock jumps, under clients whose own clock does not."""

import threading
import time

import pytest

from orderly import MessageQueue
from orderly.client.broker import PullQuery
from orderly.errors import LifecycleError
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from orderly.testing import Delay, FakeBroker, Fault
from tests.support.waiting import eventually, patient_client

QUEUE = MessageQueue("orders", "broker-a", 0)
HOUR = 3600.0


@pytest.fixture
def broker(orderly_fake):
    orderly_fake.create_topic("orders", queues=1)
    return orderly_fake


@pytest.fixture
def clients(broker):
    made = [patient_client(broker.namesrv) for _ in range(2)]
    yield made
    for client in made:
        client.close()


def lock(client):
    return client.brokers.lock_queues("g", "broker-a", [QUEUE], timeout=30.0) == {QUEUE}


def send(client, body, **properties):
    header = SendMessage(
        producer_group="p",
        topic="orders",
        queue_id=0,
        born_timestamp=1,
        properties=encode_properties(properties),
    )
    client.brokers.send_now(QUEUE, request(header.code, to_ext(header), body))


def pull(client):
    results = []
    client.brokers.pull(PullQuery("g", QUEUE, 0, 32, Subscription("orders")), results.append)
    return results


def test_a_jump_forward_ends_a_lease(broker, clients):
    first, second = clients
    assert lock(first)
    broker.jump_clock(59)
    assert not lock(second)
    broker.jump_clock(2)
    assert lock(second)


def test_a_jump_back_makes_a_lease_last_longer(broker, clients):
    first, second = clients
    assert lock(first)
    broker.jump_clock(-HOUR)
    broker.jump_clock(HOUR)
    assert not lock(second), "the jumps add up"
    broker.jump_clock(-HOUR)
    broker.jump_clock(61)
    assert not lock(second)
    broker.jump_clock(HOUR)
    assert lock(second)


def test_a_jump_forward_delivers_what_was_delayed(broker, clients):
    send(clients[0], b"later", DELAY="18")  # two hours
    results = pull(clients[1])
    broker.jump_clock(2 * HOUR)
    (result,) = eventually(lambda: results)
    assert [message.body for message in result.messages] == [b"later"]


def test_a_jump_forward_ends_a_long_poll(broker, clients):
    results = pull(clients[0])
    began = time.monotonic()
    # again and again, since the pull may come after the first jump
    (result,) = eventually(lambda: broker.jump_clock(60) or results)
    assert not result.messages
    assert time.monotonic() - began < 12, "15 s without the jump"


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_messages_are_stored_at_the_clusters_time(seconds, broker, clients):
    broker.jump_clock(seconds)
    send(clients[0], b"x")
    results = pull(clients[1])
    (result,) = eventually(lambda: results)
    assert result.messages[0].store_time == pytest.approx(time.time() + seconds, abs=60)


@pytest.mark.parametrize("seconds", [HOUR, -HOUR])
def test_a_scripted_delay_is_as_long_as_it_says(seconds, broker, clients):
    came = threading.Event()
    late = Fault(RequestCode.LOCK_BATCH_MQ, Delay(0.3), when=lambda _: came.set() or True)
    broker.script(late)
    began = time.monotonic()
    jump = threading.Thread(target=lambda: came.wait(30) and broker.jump_clock(seconds))
    jump.start()
    assert lock(clients[0])
    jump.join()
    assert time.monotonic() - began >= 0.3


def test_only_a_running_broker_has_a_clock():
    with pytest.raises(LifecycleError):
        FakeBroker().jump_clock(1)
