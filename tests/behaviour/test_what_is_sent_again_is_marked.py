"""All copies of a send have one id, one born time and one body; from the second on a mark."""

import itertools

import pytest

from orderly import Message
from orderly.errors import BrokerError, InvalidMessage, RequestTimeout
from orderly.ordering.repeats import which_attempt
from orderly.protocol.properties import MAX_SENT_PROPERTIES, UNIQ_KEY
from tests.support.topics import pulled
from tests.support.waiting import await_visible, patient_client, patient_producer

NO_ANSWER = RequestTimeout("the answer was lost")
SPOILT = BrokerError("a batch that one message spoils, or the broker's own trouble", code=1)


@pytest.fixture
def start_unlucky(orderly_namesrv, closing):
    """Start a producer whose first sends are stored, and nobody hears of it but `answers`."""

    def start(*answers, **settings):
        own = closing(patient_client(orderly_namesrv))
        send, left = own.brokers.send, list(answers)

        def lossy(queue, command, timeout, on_result, **rest):
            def heard(outcome):
                on_result(left.pop(0) if left else outcome)

            return send(queue, command, timeout, heard, **rest)

        own.brokers.send = lossy
        return closing(patient_producer(client=own, retry_backoff=0.01, **settings))

    return start


@pytest.fixture
def copies(client, topic):
    """By body, its messages as they are stored."""

    def look():
        await_visible(client)
        stored = sorted(pulled(client, topic), key=lambda message: message.body)
        return {
            body: list(found) for body, found in itertools.groupby(stored, lambda each: each.body)
        }

    return look


def marks(found):
    return [which_attempt(message) for message in found]


def identities(found):
    return {(message.properties[UNIQ_KEY], message.born_time) for message in found}


@pytest.mark.parametrize("size", [5, 20_000], ids=["plain", "compressed"])
def test_a_message(start_unlucky, copies, topic, size):
    body = b"x" * size
    sent = start_unlucky(NO_ANSWER, NO_ANSWER).send(Message(topic, body, sharding_key="a"))
    (found,) = copies().values()
    assert marks(found) == [1, 2, 3]
    ((message_id, _),) = identities(found)
    assert message_id == sent.message_id
    assert {message.sharding_key for message in found} == {"a"}


def send_batch(producer, topic, count):
    for number in range(count):
        producer.submit(Message(topic, b"%d" % number, sharding_key="a"))
    assert producer.flush()


def test_each_message_of_a_batch(start_unlucky, copies, topic):
    send_batch(start_unlucky(NO_ANSWER, NO_ANSWER, linger=10.0, batch_messages=8), topic, 8)
    found = copies()
    assert [marks(each) for each in found.values()] == [[1, 2, 3]] * 8
    assert [len(identities(each)) for each in found.values()] == [1] * 8
    assert len({born for each in found.values() for _, born in identities(each)}) == 1


def test_each_message_of_a_batch_that_is_split(start_unlucky, copies, topic):
    send_batch(start_unlucky(NO_ANSWER, SPOILT, linger=10.0, batch_messages=4), topic, 4)
    found = copies()
    assert [marks(each) for each in found.values()] == [[1, 2, 3]] * 4
    assert len({born for each in found.values() for _, born in identities(each)}) == 1


def test_what_is_sent_once_has_no_mark(producer, copies, topic):
    producer.send(Message(topic, b"once", sharding_key="a"))
    assert marks(copies()[b"once"]) == [1]


@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in a batch"])
def test_the_largest_properties_leave_room_for_it(start_unlucky, copies, topic, alone):
    producer = start_unlucky(NO_ANSWER, linger=10.0, batch_messages=2)
    ours = len(f"{UNIQ_KEY}..WAIT.true.__SHARDINGKEY.a.p..") + 32
    largest = {"p": "x" * (MAX_SENT_PROPERTIES - ours)}
    for body in (b"1", b"2")[: 1 if alone else 2]:
        producer.submit(Message(topic, body, sharding_key="a", properties=largest))
    more = {"p": largest["p"] + "x"}
    with pytest.raises(InvalidMessage, match="properties take"):
        producer.submit(Message(topic, b"3", sharding_key="a", properties=more))
    assert producer.flush()
    assert {tuple(marks(each)) for each in copies().values()} == {(1, 2)}
