"""The keys of a topic on two fake brokers: figures, bounds, and no trace."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly import Message
from orderly.errors import TopicNotFound
from orderly.model import MessageQueue
from orderly.monitoring.collecting.stored_keys import newest, read_keys
from orderly.protocol.codes import RequestCode as Code
from orderly.testing.fake.faults import DropResponse, Fail, Fault
from tests.support.waiting import patient_producer

READS = {
    Code.GET_ROUTEINFO_BY_TOPIC,
    Code.GET_TOPIC_STATS_INFO,
    Code.QUERY_CONSUME_QUEUE,
    Code.VIEW_MESSAGE_BY_ID,
}


@pytest.fixture
def send(fakes, world):
    """Topic `orders` of two queues on each broker; sends messages with these keys."""
    world.topic("orders")
    with patient_producer(fakes.namesrv) as producer:

        def send(*keys):
            for key in keys:
                producer.send(Message("orders", b"x", sharding_key=key))

        yield send


def look(client, tell=lambda *_: None, most=2000, timeout=30.0):
    return read_keys(client, "orders", most, timeout, tell)


def test_keys_are_counted_and_queues_are_told(send, client, world):
    send(*["hot"] * 60, *map(str, range(40)))
    world.store("orders", 0, 10)
    found = look(client)
    assert (sum(found.held.values()), found.planned, found.seen.messages) == (110, 110, 110)
    assert (found.seen.keyless, found.seen.keys, found.errors) == (10, 41, {})
    ((hot,),) = found.seen.top(1)
    assert (hot.key, hot.messages) == ("hot", 60)
    assert found.held[hot.queue] >= 60


def test_it_is_bounded_and_only_reads(send, client, world):
    send(*map(str, range(300)))
    counts = world.count()
    told = []
    found = look(client, tell=lambda *at: told.append(at), most=100)
    assert (found.planned, found.seen.messages) == (100, 100)
    assert told[0] == (1, found.planned)
    assert told[-1] == (found.planned, found.planned)
    assert counts.keys() <= READS
    assert counts[Code.VIEW_MESSAGE_BY_ID] == found.planned
    assert counts[Code.QUERY_CONSUME_QUEUE] <= 8
    assert counts[Code.GET_TOPIC_STATS_INFO] == 2


def test_time_is_bounded_too_and_what_was_read_counts(send, client, world, fakes):
    world.store("orders", 0, 200)
    asked = itertools.count(1)
    silent = Fault(
        Code.VIEW_MESSAGE_BY_ID, DropResponse(), times=None, when=lambda _: next(asked) > 40
    )
    fakes.script(silent)
    began = time.monotonic()
    found = look(client, timeout=2.5, most=200)  # less than a broker is waited for
    assert time.monotonic() - began < 60.0, "offsets, and the messages"
    assert (found.planned, found.seen.messages) == (200, 40)
    assert found.errors == {}, "out of time is no failure"


def test_a_message_that_is_gone_meanwhile_is_left_out(send, client, fakes):
    send("a", "a", "a")
    fakes.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(1, "can not find message")))
    found = look(client)
    assert (found.planned, found.seen.messages, found.errors) == (3, 2, {})


def test_a_broker_that_does_not_answer_is_named_and_its_queues_are_not_known(send, client, fakes):
    send(*map(str, range(20)))
    lost = Fault(Code.GET_TOPIC_STATS_INFO, DropResponse(), times=None)
    fakes.script(lost)
    found = look(client, timeout=1.5)
    assert found.errors.keys() == {"broker-a", "broker-b"}
    assert set(found.held.values()) == {None}
    assert found.seen.messages == 0


def test_a_topic_without_messages_and_one_that_is_not_there(send, client):
    found = look(client)
    assert (set(found.held.values()), found.seen.messages, found.planned) == ({0}, 0, 0)
    with pytest.raises(TopicNotFound):
        read_keys(client, "no-such-topic", 1, 1.0)


QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4), st.integers(1, 500))
def test_of_each_queue_the_newest_are_read_in_proportion(counts, most):
    held = dict(zip(QUEUES, counts, strict=False))
    read = {queue: [] for queue in held}
    for each in newest(held, {queue: count + 7 for queue, count in held.items()}, most):
        read[each.queue] += range(each.start, each.start + each.count)
    total = sum(counts)
    assert sum(map(len, read.values())) == min(most, total)
    for queue, count in held.items():
        part = len(read[queue])
        assert abs(part - min(1, most / (total or 1)) * count) < 1
        assert sorted(read[queue]) == list(range(count + 7 - part, count + 7))


def test_pieces_of_all_queues_alternate():
    held = dict.fromkeys(QUEUES, 64)
    read = newest(held, held, 256)
    assert [each.queue for each in read] == QUEUES * 2
    assert [each.start for each in read] == [32] * 4 + [0] * 4
