"""Pulls and sends: asynchronous, decoded on the reader thread, never connecting when told so."""

import threading
from dataclasses import replace

import pytest

from orderly.client.broker import PullQuery, PullStatus, Stored, pull_command
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    ConnectionLost,
    ProtocolError,
    RequestTimeout,
    TopicNotFound,
)
from orderly.model import MessageQueue, UndecodableMessage
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import from_ext
from orderly.protocol.frame import render_ext, reply_to, request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.pull import PullMessage
from orderly.protocol.send import encode_batch
from orderly.protocol.stored_message import SysFlag, encode_stored_message
from tests.support.messages import message

QUEUE = MessageQueue("orders", "broker-a", 2)
PULL = RequestCode.PULL_MESSAGE
SEND = RequestCode.SEND_MESSAGE_V2
HEADER = {
    "suggestWhichBrokerId": "1",
    "nextBeginOffset": "12",
    "minOffset": "3",
    "maxOffset": "40",
}


def stored_message(offset, body):
    return encode_stored_message(replace(message(offset, queue=QUEUE), body=body))


def stored_batch(offset, count):
    """A batch as a queue of type BatchCQ stores it."""
    whole = message(offset, queue=QUEUE).changed(
        body=encode_batch([(b"%d" % number, "", 0) for number in range(count)]),
        properties={"INNER_NUM": str(count)},
        sys_flag=SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP,
    )
    return encode_stored_message(whole)


def query(**changes):
    fields = {
        "group": "g",
        "queue": QUEUE,
        "offset": 10,
        "max_messages": 32,
        "subscription": Subscription.from_expression("orders", "A || B", 77),
    }
    return PullQuery(**(fields | changes))


# --- pull --------------------------------------------------------------------------------------


def test_a_pull_says_the_same_in_json_as_in_its_fields():
    for offset in (10, 11, 1 << 40):
        command = pull_command(query(offset=offset))
        assert command.json_ext == render_ext(command.ext)
        header = from_ext(PullMessage, command.ext)
        assert (header.queue_offset, header.max_msg_nums) == (offset, 32)
        assert (header.topic, header.queue_id, header.subscription) == (
            QUEUE.topic,
            QUEUE.queue_id,
            "A || B",
        )


def test_a_pull_from_within_a_batch_brings_what_is_not_below_it(client, broker):
    broker.on(PULL, code=0, ext=HEADER, body=stored_batch(8, 4))
    found = client.brokers.pull_now(query()).messages
    assert [(m.queue_offset, m.body) for m in found] == [(10, b"2"), (11, b"3")]


def test_a_batch_has_no_offset_that_the_next_pull_begins_with(client, broker):
    broker.on(PULL, code=0, ext=HEADER, body=stored_batch(10, 3))
    (found,) = client.brokers.pull_now(query()).messages
    assert isinstance(found, UndecodableMessage)
    assert "offset 12" in found.why


def test_a_pull_carries_its_subscription_asks_to_be_held_and_commits_nothing(client, broker):
    broker.on(PULL, code=19, ext=HEADER)
    client.brokers.pull_now(query())
    (asked,) = broker.requests(PULL)
    assert asked.ext["subscription"] == "A || B"
    assert asked.ext["subVersion"] == "77"
    assert asked.ext["expressionType"] == "TAG"
    assert asked.ext["sysFlag"] == "6"  # 2 suspend, 4 subscription; never 1, commit
    assert asked.ext["suspendTimeoutMillis"] == "15000"
    assert (asked.ext["queueId"], asked.ext["queueOffset"]) == ("2", "10")


def test_a_pull_that_must_not_be_held(client, broker):
    broker.on(PULL, code=19, ext=HEADER)
    client.brokers.pull_now(query(suspend=0))
    (asked,) = broker.requests(PULL)
    assert asked.ext["sysFlag"] == "4"


@pytest.mark.parametrize(
    ("code", "status"),
    [(19, PullStatus.NO_NEW), (20, PullStatus.NO_MATCH), (21, PullStatus.OFFSET_ILLEGAL)],
)
def test_statuses_without_messages(client, broker, code, status):
    broker.on(PULL, code=code, ext=HEADER, body=b"ignored")
    result = client.brokers.pull_now(query())
    assert (result.status, result.messages) == (status, [])
    assert (result.next_offset, result.min_offset, result.max_offset) == (12, 3, 40)
    assert result.suggested_broker_id == 1


def test_messages_are_decoded_with_their_queue(client, broker):
    broker.on(PULL, ext=HEADER, body=stored_message(10, b"one") + stored_message(11, b"two"))
    result = client.brokers.pull_now(query())
    assert result.status is PullStatus.FOUND
    assert [(m.queue, m.queue_offset, m.body) for m in result.messages] == [
        (QUEUE, 10, b"one"),
        (QUEUE, 11, b"two"),
    ]


def test_an_asynchronous_pull_is_decoded_on_the_reader_thread(client, broker, inbox):
    broker.on(PULL, ext=HEADER, body=stored_message(10, b"one"))
    threads = []

    def on_result(result):
        threads.append(threading.current_thread().name)
        inbox(result)

    assert client.brokers.pull(query(), on_result) is True
    assert [m.body for m in inbox.one().messages] == [b"one"]
    assert threads == [f"orderly-read-{broker.address}"]


@pytest.mark.parametrize("code", [1, 2, 16, 24, 25, 29, 215])
def test_a_refused_pull_reaches_the_callback_with_queue_and_group(client, broker, inbox, code):
    broker.on(PULL, code=code, remark="no")
    client.brokers.pull(query(), inbox)
    error = inbox.one()
    assert isinstance(error, BrokerError)
    assert "orders/broker-a/2" in str(error)
    assert "'g'" in str(error)


@pytest.mark.parametrize(
    "reply",
    [
        {"ext": HEADER, "body": b"no message"},
        {"ext": HEADER | {"nextBeginOffset": "soon"}},
        {"ext": {}},
    ],
)
def test_an_unreadable_pull_reply_is_an_error_and_no_offset(client, broker, inbox, reply):
    broker.on(PULL, **reply)
    client.brokers.pull(query(), inbox)
    assert isinstance(inbox.one(), ProtocolError)


def test_a_cut_connection_reaches_the_callback_of_a_held_pull(client, broker, inbox):
    broker.on(PULL, lambda _: None)
    client.brokers.pull(query(), inbox)
    broker.wait_for(PULL)
    broker.cut()
    assert isinstance(inbox.one(), ConnectionLost)


def test_a_pull_that_must_not_connect_is_not_sent(client, broker, name_server, inbox):
    assert client.brokers.pull(query(), inbox, may_connect=False) is False  # no route either
    assert name_server.accepted == 0
    client.routes.get("orders")
    assert client.brokers.pull(query(), inbox, may_connect=False) is False
    assert broker.accepted == 0
    broker.on(PULL, code=19, ext=HEADER)
    client.connections.get(broker.address)
    assert client.brokers.pull(query(), inbox, may_connect=False) is True
    assert inbox.one().status is PullStatus.NO_NEW


def test_a_pull_that_cannot_be_sent_raises_and_calls_nobody(client, broker, inbox, error_of):
    broker.close()
    assert isinstance(error_of(client.brokers.pull, query(), inbox), ConnectFailed)
    unknown = query(queue=MessageQueue("nosuch", "broker-a", 0))
    assert isinstance(error_of(client.brokers.pull, unknown, inbox), TopicNotFound)
    assert inbox.items == []


def test_the_suggested_replica_is_pulled_and_the_master_if_it_is_gone(client, new_broker, cluster):
    master, slave = new_broker(), new_broker()
    for broker in (master, slave):
        broker.on(PULL, code=19, ext=HEADER)
    cluster.add("orders", **{"broker-a": {0: master.address, 1: slave.address}})
    client.brokers.pull_now(query(broker_id=1))
    assert (len(master.requests(PULL)), len(slave.requests(PULL))) == (0, 1)
    cluster.add("orders", **{"broker-a": {0: master.address}})
    client.routes.refresh("orders")
    client.brokers.pull_now(query(broker_id=1))
    assert len(master.requests(PULL)) == 1


# --- send --------------------------------------------------------------------------------------

ACK = {"msgId": "AA,BB", "queueId": "2", "queueOffset": "5"}


def send(client, inbox, **options):
    return client.brokers.send(QUEUE, request(SEND, {"b": "orders"}, b"x"), 2.0, inbox, **options)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (0, "SEND_OK"),
        (10, "FLUSH_DISK_TIMEOUT"),
        (11, "SLAVE_NOT_AVAILABLE"),
        (12, "FLUSH_SLAVE_TIMEOUT"),
    ],
)
def test_codes_of_stored_messages(client, broker, inbox, code, status):
    broker.on(SEND, code=code, ext=ACK)
    assert send(client, inbox) is not None
    assert inbox.one() == Stored(status, 2, 5, ("AA", "BB"))


def test_a_refused_send_reaches_the_callback(client, broker, inbox):
    broker.on(SEND, code=2, remark="[TIMEOUT_CLEAN_QUEUE]")
    send(client, inbox)
    error = inbox.one()
    assert isinstance(error, BrokerBusy)
    assert "orders/broker-a/2" in str(error)


def test_a_send_without_an_answer_times_out_on_the_callback(client, broker, inbox):
    broker.on(SEND, lambda _: None)
    client.brokers.send(QUEUE, request(SEND), 0.01, inbox)
    assert isinstance(inbox.one(), RequestTimeout)


def test_a_send_goes_to_the_master_only(client, new_broker, cluster, inbox):
    master, slave = new_broker(), new_broker()
    master.on(SEND, ext=ACK)
    cluster.add("orders", **{"broker-a": {0: master.address, 1: slave.address}})
    send(client, inbox)
    inbox.one()
    assert slave.received == []


def test_a_send_that_must_not_connect_is_not_sent(client, broker, inbox):
    client.routes.get("orders")
    assert send(client, inbox, may_connect=False) is None
    assert broker.accepted == 0
    assert inbox.items == []


def test_a_send_from_a_reply_callback_goes_out_at_once(client, broker, inbox):
    broker.on(SEND, lambda command: reply_to(command, ext=ACK))

    def again(_):
        assert send(client, inbox, may_connect=False) is not None

    client.brokers.send(QUEUE, request(SEND), 2.0, again)
    assert inbox.one().status == "SEND_OK"
