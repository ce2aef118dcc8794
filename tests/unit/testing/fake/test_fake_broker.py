"""The broker with its sockets: life, faults, several clients."""

import random
import socket
import struct
import threading
import time

import pytest

from orderly import Message, MessageQueue
from orderly.client.broker import PullQuery
from orderly.errors import (
    BrokerBusy,
    ConfigError,
    ConnectFailed,
    ConnectionLost,
    EmbeddedBrokerError,
    LifecycleError,
    RequestTimeout,
)
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from orderly.testing import Cut, Delay, DropRequest, DropResponse, Fail, FakeBroker, Fault
from tests.support.consuming import unique
from tests.support.waiting import eventually, patient_client, patient_producer

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def broker(orderly_fake):
    orderly_fake.create_topic("orders", queues=4)
    return orderly_fake


@pytest.fixture
def new_client(broker):
    clients = []

    def new():
        clients.append(patient_client(broker.namesrv))
        return clients[-1]

    yield new
    for client in clients:
        client.close()


@pytest.fixture
def client(new_client):
    return new_client()


def lock(client, timeout=30.0, group="g"):
    return client.brokers.lock_queues(group, "broker-a", [QUEUE], timeout=timeout) == {QUEUE}


# --- life --------------------------------------------------------------------------------------


def test_it_starts_at_once_and_leaves_nothing_behind():
    before = set(threading.enumerate())
    began = time.perf_counter()
    broker = FakeBroker().start()
    took = time.perf_counter() - began
    address = broker.namesrv
    broker.stop()
    broker.stop()
    assert took < 10.0, took  # 2 ms on an idle machine
    assert set(threading.enumerate()) <= before
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(address.split(":"))


def test_it_is_used_only_while_it_runs():
    broker = FakeBroker()
    with pytest.raises(LifecycleError):
        _ = broker.namesrv
    with pytest.raises(LifecycleError):
        broker.create_topic("orders")
    with broker, pytest.raises(LifecycleError):
        broker.start()


def test_a_taken_port_is_named(broker):
    port = int(broker.namesrv.rpartition(":")[2])
    with pytest.raises(EmbeddedBrokerError, match=str(port)):
        FakeBroker(namesrv_port=port).start()


@pytest.mark.parametrize("names", [(), ("",), ("a", "a")])
def test_brokers_have_names_that_differ(names):
    with pytest.raises(ConfigError):
        FakeBroker(brokers=names)


def test_bad_topics_and_unknown_brokers_are_refused(broker):
    for name, queues in (("with space", 4), ("orders", 0)):
        with pytest.raises(ConfigError):
            broker.create_topic(name, queues)
    with pytest.raises(ConfigError, match="broker-x"):
        broker.kill_broker("broker-x")


def test_several_brokers_share_a_topic():
    with FakeBroker(brokers=("broker-a", "broker-b")) as broker:
        broker.create_topic("orders", queues=2)
        with patient_client(broker.namesrv) as client:
            assert len(client.routes.get("orders").write_queues()) == 4
            broker.kill_broker("broker-b")
            assert len(client.name_servers.route("orders").write_queues()) == 2


# --- trouble -----------------------------------------------------------------------------------


def test_a_killed_broker_cuts_its_connections_and_comes_back_without_locks(broker, new_client):
    first, second = new_client(), new_client()
    with patient_producer(client=first) as producer:
        result = producer.send(Message("orders", b"1", sharding_key="k"))
    assert lock(first)
    assert not lock(second)
    broker.kill_broker()
    with pytest.raises((ConnectionLost, ConnectFailed)):
        lock(second)
    broker.restart_broker()
    second.routes.forget("orders")
    assert eventually(lambda: lock(second))
    assert second.brokers.max_offset(result.queue) == 1


def test_a_paused_broker_answers_what_it_was_asked_once_it_goes_on(broker, client):
    assert lock(client)
    broker.pause_broker()
    with pytest.raises(RequestTimeout):
        lock(client, timeout=0.05)
    threading.Timer(0.1, broker.resume_broker).start()
    assert lock(client)


def test_what_falls_due_while_it_is_paused_is_sent_when_it_goes_on(broker, client):
    results = []
    client.brokers.pull(PullQuery("g", QUEUE, 0, 32, Subscription("orders")), results.append)
    header = SendMessage(
        producer_group="p",
        topic="orders",
        queue_id=0,
        born_timestamp=1,
        properties=encode_properties({"DELAY": "18"}),  # two hours
    )
    client.brokers.send_now(QUEUE, request(header.code, to_ext(header), b"later"))
    broker.pause_broker()
    broker.jump_clock(2 * 3600)
    due = time.monotonic()
    eventually(lambda: time.monotonic() > due + 0.2)
    assert results == []
    broker.resume_broker()
    (result,) = eventually(lambda: results)
    assert [message.body for message in result.messages] == [b"later"]


def test_a_paused_broker_can_be_killed_and_stopped(broker):
    broker.pause_broker()
    broker.pause_broker()
    broker.kill_broker()
    broker.resume_broker()
    broker.stop()


FAULTS = {
    "the request is lost": (DropRequest(), RequestTimeout, True),
    "the answer is lost": (DropResponse(), RequestTimeout, False),
    "the connection is lost": (Cut(), ConnectionLost, True),
    "it is refused": (Fail(ResponseCode.SYSTEM_BUSY, "busy"), BrokerBusy, True),
}


@pytest.mark.parametrize(("action", "error", "free"), FAULTS.values(), ids=FAULTS)
def test_a_scripted_fault_happens_once(action, error, free, broker, new_client):
    first, second = new_client(), new_client()
    broker.script(Fault(RequestCode.LOCK_BATCH_MQ, action))
    with pytest.raises(error):
        lock(first, timeout=0.3 if error is RequestTimeout else 30.0)
    assert lock(second) == free, "whether the first request was carried out"


def test_a_delayed_request_is_overtaken(broker, new_client):
    first, second = new_client(), new_client()

    def asked():  # anew, where the machine stalls until the delay is over
        group, began = unique("g"), time.monotonic()
        broker.script(Fault(RequestCode.LOCK_BATCH_MQ, Delay(3.0)))
        with pytest.raises(RequestTimeout):
            lock(first, 0.05, group)
        granted = lock(second, group=group)
        return time.monotonic() - began < 3.0 and (granted, group, began)

    granted, group, began = eventually(asked)
    assert granted
    eventually(lambda: time.monotonic() > began + 3.1)
    assert not lock(first, group=group), "it came too late"


def test_a_script_is_cleared(broker, client):
    broker.script(Fault(RequestCode.LOCK_BATCH_MQ, DropRequest(), times=None))
    broker.script()
    assert lock(client)


def test_a_broken_frame_ends_only_its_connection(broker, client):
    host, _, port = broker.broker_address.rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(struct.pack(">I", 1 << 30))
        peer.settimeout(5)
        assert peer.recv(1) == b""
    assert lock(client)


def test_a_client_that_does_not_read_holds_nobody_up(broker, client):
    with patient_producer(client=client) as producer:
        queue = producer.send(
            Message("orders", random.Random(1).randbytes(200_000), sharding_key="k")
        ).queue
    ext = (
        f'"consumerGroup":"g","topic":"orders","queueId":"{queue.queue_id}","queueOffset":"0",'
        '"maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0",'
        '"subscription":"*"'
    )
    header = f'{{"code":11,"opaque":1,"flag":0,"extFields":{{{ext}}}}}'.encode()
    frame = struct.pack(">II", 4 + len(header), len(header)) + header
    host, _, port = broker.broker_address.rpartition(":")
    with socket.create_connection((host, int(port))) as peer:
        peer.sendall(frame * 100)
        assert lock(client)
        received = 0
        while received < 100 * 200_000:
            received += len(peer.recv(1 << 20))
