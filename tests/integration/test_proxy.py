"""RocketMQ's proxy in cluster mode between members and the broker: the smoke test of all of it.

The whole behaviour suite runs through one with `make test-proxy`; proxies that are killed, hang and
come back are in `faults/test_proxies_come_and_go.py`.
"""

import contextlib
import socket
import time

import pytest

from orderly import Ack, ConsumerConfig, Message, OrderlyConsumer, Park, listener
from orderly.errors import ConfigError, SendFailed
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import FrameDecoder, encode_frame, request
from orderly.protocol.topics import MessageType
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.topics import dead_letters, make_state_topics
from tests.support.waiting import eventually, patient_client, patient_producer

KEYS = [f"order-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def operator(operator_namesrv):
    with patient_client(operator_namesrv) as client:
        yield client


@pytest.fixture
def group():
    return unique("group")


@pytest.fixture
def topic(operator):
    name = unique("orders")
    operator.admin.create_topic(name, 4, message_type=MessageType.FIFO)
    return name


@pytest.fixture
def producer(proxy_beside, closing):
    return closing(patient_producer(proxy_beside))


@pytest.fixture
def join(proxy_beside, group, topic, closing):
    def join(handler, **settings):
        config = ConsumerConfig(**{"consume_from": "first", "rebalance_interval": 5.0} | settings)
        own = closing(patient_client(proxy_beside))
        consumer = OrderlyConsumer(group, handler, client=own, config=config)
        return closing(consumer.subscribe(topic))

    return join


@pytest.mark.parametrize("order", ["queue", "key"])
def test_members_share_hand_on_and_keep_each_keys_order(
    operator, producer, topic, group, join, order
):
    if order == "key":
        make_state_topics(operator, group, topic)
    seen = Recorder()
    first, second = (join(seen, order=order) for _ in range(2))
    eventually(lambda: len(first.assignment) == len(second.assignment) == 2)
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: len(seen.deliveries) == 60)
    first.close()
    began = time.monotonic()
    eventually(lambda: len(second.assignment) == 4)
    assert time.monotonic() - began < 20, "it looks for itself: nobody is notified"
    send_numbers(producer, topic, KEYS, 5, first=5)
    eventually(lambda: len(seen.deliveries) == 120)
    assert seen.by_key() == {key: list(range(10)) for key in KEYS}
    second.close()
    ends = [
        operator.brokers.query_offset(group, q) for q in operator.routes.get(topic).read_queues()
    ]
    assert sum(ends) == 120, "all is committed at the broker"


def test_batches_of_a_fifo_topic_arrive_in_order(producer, topic, join):
    """To the proxy a batch is NORMAL: it is refused, and its messages are sent alone."""
    futures = [
        producer.submit(Message(topic, b"%d" % number, sharding_key=KEYS[number % len(KEYS)]))
        for number in range(240)
    ]
    for future in futures:
        future.result(60)
    seen = Recorder()
    join(seen)
    eventually(lambda: len(seen.deliveries) == 240)
    assert seen.by_key() == {key: list(range(n, 240, len(KEYS))) for n, key in enumerate(KEYS)}


def test_a_topic_of_another_type_is_refused_and_the_error_says_which(operator, producer):
    name = unique("plain")
    operator.admin.create_topic(name, 2)
    with pytest.raises(SendFailed, match=r"sharding key needs FIFO.*orderly topic create --type"):
        producer.send(Message(name, b"x", sharding_key="k"))
    producer.send(Message(name, b"x"))


def test_a_key_is_parked_and_released_by_an_operator_who_is_not_behind_it(
    operator, producer, topic, group, join
):
    make_state_topics(operator, group, topic)
    seen = []

    @listener
    def ship(message, context):
        if message.sharding_key == KEYS[0] and not context.replayed:
            return Park("not yet")
        seen.append((message.sharding_key, int(message.body)))
        return Ack()

    join(ship, order="key", commit_interval=0.2)
    send_numbers(producer, topic, KEYS[:3], 4)
    eventually(lambda: len(seen) == 8)
    parked = ParkedMessages(operator, group, topic)
    eventually(lambda: parked.keys() == ((topic, KEYS[0]),))
    (outcome,) = parked.release(KEYS[0])
    assert (outcome.settled, outcome.reason) == (4, None)
    assert [number for key, number in seen if key == KEYS[0]] == [0, 1, 2, 3]


def test_dead_letters_are_stored_where_java_has_them(operator, producer, topic, group, join):
    def fail(messages, context):
        raise ValueError("never")

    join(fail, max_reconsume_times=0, suspend=0.05)
    send_numbers(producer, topic, KEYS[:1], 2)
    eventually(lambda: len(dead_letters(operator, group)) == 2)


def test_without_its_two_topics_order_by_key_is_refused(topic, group, join):
    with pytest.raises(ConfigError, match=f"orderly topic create {topic} --for-group {group}"):
        join(Recorder(), order="key")


def test_a_failure_is_answered_under_a_number_that_is_not_the_requests(proxy_beside):
    """Why our numbers are below 0 (`client.connection`): it must not pass for another's answer."""
    host, _, port = proxy_beside.rpartition(":")
    command = request(
        RequestCode.GET_MAX_OFFSET, {"topic": "t", "queueId": "0", "bname": "no-such-broker"}
    )
    command.request_id = -5
    with contextlib.closing(socket.create_connection((host, int(port)), 10)) as sock:
        sock.settimeout(30)
        sock.sendall(encode_frame(command))
        decoder = FrameDecoder()
        while not (answers := decoder.receive(sock.recv(65536))):
            pass
    (answer,) = answers
    assert answer.code == 17
    assert "No topic route info in name server for the topic: no-such-broker" in answer.remark
    assert answer.request_id >= 0
