"""After a loss a send waits until the broker has read what was written to the old connection."""

import contextlib
import threading
import time

import pytest

from orderly.client import lost_connections as module
from orderly.errors import RemotingError, RequestTimeout
from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import reply_to, request
from orderly.protocol.heartbeat import decode_heartbeat, encode_producer_connections
from orderly.protocol.send import SendMessage
from tests.support.waiting import eventually

QUEUE = MessageQueue("orders", "broker-a", 2)
SEND, BEAT = RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT
LISTED, OFFSET = RequestCode.GET_PRODUCER_CONNECTION_LIST, RequestCode.GET_MIN_OFFSET
SOON = 30.0


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "_SETTLE", 0.01)
    monkeypatch.setattr(module, "_LOOK_AGAIN", 0.01)
    monkeypatch.setattr(module, "_BLIND", 0.5)


@pytest.fixture
def lists(broker, client):
    """Let the broker list so many connections of the client, one answer after the other."""

    def script(*counts):
        left = list(counts)

        def answer(asked):
            count = left.pop(0) if len(left) > 1 else left[0]
            others = ["10.0.0.9@1#other"] * 2
            return reply_to(
                asked, body=encode_producer_connections([client.client_id] * count + others)
            )

        broker.on(LISTED, answer)

    script(1)
    return script


@pytest.fixture
def lost(broker, client):
    """A client of a producer whose connection was lost, after the broker had been heard on it."""
    broker.on(OFFSET, ext={"offset": "0"})
    broker.on(SEND, ext={"msgId": "A" * 32, "queueId": "2", "queueOffset": "7"})
    client.heartbeat.register_producer("shop")
    client.brokers.min_offset(QUEUE)
    cut(broker, client)
    return client


def cut(broker, client):
    lost = client._lost._lost
    before = lost.get(broker.address)
    broker.cut()
    eventually(lambda: lost.get(broker.address) is not before)


def send(client, inbox, *, timeout=SOON, may_connect=True):
    header = SendMessage(
        producer_group="shop", topic="orders", queue_id=2, born_timestamp=1, properties=""
    )
    command = request(header.code, to_ext(header), b"x")
    return client.brokers.send(QUEUE, command, timeout, inbox, may_connect=may_connect)


def order_of(broker):
    """The codes of what came since the loss, of those that matter here."""
    codes = [command.code for number, command in broker.received if number > 1]
    return [code for code in codes if code in (SEND, LISTED)]


def test_it_goes_out_once_the_broker_lists_no_other_connection_of_the_client(
    broker, lost, lists, inbox
):
    lists(2, 2, 1)
    send(lost, inbox)
    assert inbox.one().queue_offset == 7
    assert order_of(broker) == [LISTED, LISTED, LISTED, SEND]
    send(lost, inbox)
    inbox.wait(2)
    assert order_of(broker)[4:] == [SEND], "from then on sends go out at once"


def test_the_broker_is_told_of_the_new_connection_first(broker, lost, lists, inbox):
    before = len(broker.received)
    send(lost, inbox)
    inbox.one()
    codes = [command.code for _, command in broker.received[before:]]
    assert codes.index(BEAT) < codes.index(LISTED)
    beats = [c for _, c in broker.received[before:] if c.code == BEAT]
    assert all(
        [data.group for data in decode_heartbeat(beat.body).producers] == ["shop"] for beat in beats
    )


def test_without_an_answer_nothing_is_sent(broker, lost, lists, inbox):
    broker.on(BEAT, lambda _: None)
    with pytest.raises(RequestTimeout):
        send(lost, inbox, timeout=0.2)
    assert broker.requests(SEND) == []
    broker.on(BEAT)
    send(lost, inbox)
    inbox.one()
    assert LISTED in order_of(broker)


def test_who_must_not_wait_is_told_until_it_is_over(broker, lost, lists, inbox):
    lost.brokers.min_offset(QUEUE)  # there is a connection
    assert send(lost, inbox, may_connect=False) is None
    send(lost, inbox)
    assert send(lost, inbox, may_connect=False) is not None
    inbox.wait(2)


def test_nothing_else_waits(broker, lost, lists):
    broker.on(BEAT, lambda _: None)
    assert lost.brokers.min_offset(QUEUE) == 0


def test_many_that_send_wait_together(broker, lost, lists, inbox):
    lists(2, 1)
    threads = [threading.Thread(target=send, args=(lost, inbox)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    inbox.wait(8)
    assert order_of(broker).count(LISTED) == 2


@pytest.mark.parametrize("refusal", [1, 3, 16], ids=["no such group", "a proxy", "no permission"])
def test_where_nobody_tells_it_waits_for_a_while(broker, lost, inbox, refusal):
    broker.on(LISTED, code=refusal, remark="no")
    assert seconds_of(send, lost, inbox) >= 0.5


def test_an_old_connection_that_is_listed_for_ever_is_not_waited_for(
    broker, lost, lists, inbox, monkeypatch
):
    monkeypatch.setattr(module, "_LONGEST", 0.3)
    lists(2)
    assert seconds_of(send, lost, inbox) >= 0.3
    inbox.one()


def test_of_one_that_never_said_a_word_no_list_tells(broker, client, lists, inbox):
    """Its heartbeat may not have been read either."""
    broker.on(OFFSET, lambda _: None)
    broker.on(BEAT, lambda _: None)
    broker.on(SEND, ext={"msgId": "A" * 32, "queueId": "2", "queueOffset": "7"})
    client.heartbeat.register_producer("shop")
    asked = threading.Thread(target=perhaps, args=(client.brokers.min_offset, QUEUE))
    asked.start()
    broker.wait_for(OFFSET)
    cut(broker, client)
    asked.join()
    broker.on(BEAT)
    assert seconds_of(send, client, inbox) >= 0.5


def test_a_connection_lost_while_it_waits_is_waited_for_too(broker, lost, lists, inbox):
    waits = threading.Event()

    def answer(asked):
        waits.set()
        return reply_to(asked, body=encode_producer_connections([lost.client_id] * 2))

    broker.on(LISTED, answer)
    thread = threading.Thread(target=perhaps, args=(send, lost, inbox))
    thread.start()
    assert waits.wait(SOON)
    cut(broker, lost)
    before = len(broker.received)
    lists(1)
    thread.join()
    if not broker.requests(SEND):  # the question was under way when the connection was lost
        send(lost, inbox)
    inbox.one()
    later = [command.code for _, command in broker.received[before:]]
    assert LISTED in later[: later.index(SEND)]


def perhaps(call, *arguments):
    with contextlib.suppress(RemotingError):
        call(*arguments)


def seconds_of(call, *arguments):
    began = time.monotonic()
    call(*arguments)
    return time.monotonic() - began
