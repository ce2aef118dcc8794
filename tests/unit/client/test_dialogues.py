"""State records and parked messages on a broker: in exactly one queue, read back in blocks."""

import threading
import time
from dataclasses import replace

import pytest

from orderly.client.broker import PullQuery
from orderly.client.dialogues import performer
from orderly.errors import OrderlyError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    AppendRecord,
    HasOffsets,
    Peek,
    Peeked,
    QueueEnds,
    ReadParked,
    ReadRecords,
    RecordsRead,
    SaveOffset,
)
from orderly.protocol.ext import of_queue, to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import (
    ParkDetails,
    ParkMessage,
    park_message,
    park_request,
    read_parked,
)
from orderly.protocol.parked_key import key_tag
from orderly.protocol.send import SendMessage
from orderly.protocol.state_record import Confirm, encode_record
from orderly.testing.fake.broker import FakeBroker
from tests.support.consuming import unique
from tests.support.messages import message
from tests.support.waiting import patient_client


@pytest.fixture(scope="module")
def broker():
    with FakeBroker(brokers=("broker-a", "broker-b")) as broker:
        yield broker


@pytest.fixture
def client(broker):
    with patient_client(broker.namesrv) as client:
        yield client


@pytest.fixture
def queue(broker):
    topic = unique("state")
    broker.create_topic(topic, queues=2)
    return MessageQueue(topic, "broker-b", 1)


@pytest.fixture
def perform(client):
    return performer("group", client.brokers)


def test_records_are_appended_one_after_the_other_and_read_back(client, perform, queue):
    offsets = [perform(AppendRecord(queue, b"record %d" % i)) for i in range(3)]
    assert offsets == [0, 1, 2]
    expected = tuple((i, b"record %d" % i) for i in range(3))
    stored = [stored_at(client, queue, offset) for offset in offsets]
    assert perform(ReadRecords(queue, 0)) == RecordsRead(expected, 3, 0, max(stored))
    assert perform(ReadRecords(queue, 2)) == RecordsRead(expected[2:], 3, 0, stored[2])


def stored_at(client, queue, offset):
    """When the broker stored a message, in milliseconds."""
    pull = PullQuery("tool", queue, offset, 1, Subscription(queue.topic), suspend=0)
    (message,) = client.brokers.pull_now(pull).messages
    return round(message.store_time * 1000)


def test_a_record_goes_to_its_queue_and_to_no_other(perform, queue):
    perform(AppendRecord(queue, b"record"))
    for other in (
        MessageQueue(queue.topic, queue.broker_name, 0),
        MessageQueue(queue.topic, "broker-a", 1),
    ):
        assert perform(ReadRecords(other, 0)).records == ()


def test_a_block_has_32_records(perform, queue):
    for i in range(40):
        perform(AppendRecord(queue, b"%d" % i))
    first = perform(ReadRecords(queue, 0))
    assert (len(first.records), first.next_offset) == (32, 32)
    assert len(perform(ReadRecords(queue, first.next_offset)).records) == 8


def test_beyond_the_end_there_is_nothing_and_the_answer_says_where_to_read(perform, queue):
    perform(AppendRecord(queue, b"record"))
    assert perform(ReadRecords(queue, 1)) == RecordsRead((), 1, 0)
    assert perform(ReadRecords(queue, 7)) == RecordsRead((), 1, 0)


def test_a_waiting_read_gets_the_record_that_comes(perform, queue, monkeypatch):
    monkeypatch.setattr("orderly.client.dialogues._WAIT", 60.0)
    late = threading.Timer(0.2, perform, [AppendRecord(queue, b"late")])
    late.start()
    started = time.monotonic()
    read = perform(ReadRecords(queue, 0, wait=True))
    late.join()
    assert read.records == ((0, b"late"),)
    assert time.monotonic() - started < 40, "it came when the record came, not when the wait ended"


def test_people_can_find_a_record_by_kind_and_group(client, perform, queue):
    perform(AppendRecord(queue, encode_record(Confirm("me", 3))))
    pull = PullQuery("tool", queue, 0, 1, Subscription(queue.topic), suspend=0)
    (message,) = client.brokers.pull_now(pull).messages
    assert (message.tags, message.keys) == ("confirm", ("group",))


# --- whether a group is new ----------------------------------------------------------------------


def told(client, queue):
    """A message of a queue, as a look at where the queue ends tells it."""
    store(client, queue)
    return Peeked(stored_at(client, queue, 0), 1)


def store(client, queue):
    header = SendMessage(producer_group="g", **of_queue(queue), born_timestamp=1)
    client.brokers.send_now(queue, request(header.code, to_ext(header), b"x"))


@pytest.mark.parametrize("through", ["broker", "proxy"])
def test_the_last_message_of_each_queue_is_told(broker, client, queue, through):
    other = replace(queue, queue_id=0)
    last = told(client, queue)
    with patient_client(broker.namesrv if through == "broker" else broker.proxy) as asking:
        perform = performer("group", asking.brokers)
        ends = perform(QueueEnds((other, queue)))
        assert ends == {other: Peeked(None, 0), queue: last}
        assert ends[queue] == perform(Peek(queue, 0)), "a landmark is compared with such a look"


@pytest.mark.parametrize("through", ["broker", "proxy"])
def test_an_offset_in_any_queue_of_the_broker_is_told(broker, client, queue, through):
    other = replace(queue, queue_id=0)
    there = HasOffsets((other, queue))
    elsewhere = HasOffsets(tuple(replace(q, broker_name="broker-a") for q in (other, queue)))
    with patient_client(broker.namesrv if through == "broker" else broker.proxy) as asking:
        perform = performer("group", asking.brokers)
        assert [perform(there), perform(elsewhere)] == [False, False]
        performer("group", client.brokers)(SaveOffset(queue, 0))
        assert [perform(there), perform(elsewhere)] == [True, False]
        assert not performer("group-2", asking.brokers)(there)


@pytest.mark.parametrize("through", ["broker", "proxy"])
def test_a_topic_that_is_not_there_is_no_silent_broker(broker, queue, through):
    nowhere = QueueEnds((replace(queue, topic=unique("nowhere")),))
    namesrv = broker.namesrv if through == "broker" else broker.proxy
    with patient_client(namesrv) as asking, pytest.raises(TopicNotFound):
        performer("group", asking.brokers)(nowhere)


# --- the park topic ------------------------------------------------------------------------------


@pytest.fixture
def park(client, queue):
    def park(key, offset):
        details = ParkDetails(key=key, reason="why", parked_at=1.0, token=1)
        original = replace(message(offset), properties={"TAGS": "mine"})
        content = park_message(original, details)
        command = park_request("group", queue, content, now=1.0)
        return client.brokers.send_now(queue, command).queue_offset

    return park


def test_parked_messages_are_read_as_they_are_stored(perform, park, queue):
    assert [park("a", 5), park("b", 6)] == [0, 1]
    read = perform(ReadParked(queue, 0))
    found = [read_parked(each) for each in read.messages]
    assert [(each.key, each.offset, each.position) for each in found] == [("a", 5, 0), ("b", 6, 1)]
    assert [each.original.tags for each in found] == ["mine", "mine"]
    assert (read.next_offset, read.min_offset) == (2, 0)
    assert perform(ReadParked(queue, 2)).next_offset == 2, "the end"


def test_the_broker_picks_out_a_tag(perform, park, queue):
    for offset in range(40):
        park("ab"[offset % 2], offset)
    found, at = [], 0
    while (read := perform(ReadParked(queue, at, key_tag("b")))).next_offset > at:
        found += [read_parked(each).offset for each in read.messages]
        at = read.next_offset
    assert found == list(range(1, 40, 2))


def test_a_tag_with_the_same_hash_is_another_tag(perform, client, queue):
    for tag in ("Aa", "BB"):  # their hashes are equal
        content = ParkMessage({"TAGS": tag}, tag.encode())
        client.brokers.send_now(queue, park_request("group", queue, content, now=1.0))
    assert [each.body for each in perform(ReadParked(queue, 0, "BB")).messages] == [b"BB"]


def test_without_the_topic_nothing_is_appended_elsewhere(perform):
    with pytest.raises(OrderlyError):
        perform(AppendRecord(MessageQueue("missing-state", "broker-a", 0), b"record"))
