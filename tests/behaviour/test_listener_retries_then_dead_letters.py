"""A failing message is tried in place, then suspends its queue, then goes to the dead letters."""

import pytest
import structlog

from orderly import Ack, Client, DeadLetter
from orderly.client.pulling import PullQuery
from orderly.errors import OrderlyError
from orderly.listener import Block, Listener, Retry
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD = 1
RETRY = Retry(attempts=2, first_wait=0.01)


@pytest.fixture
def dead_letters(orderly_namesrv, group, closing):
    """A function that reads the bodies of the group's dead letters, as numbers."""
    client = closing(Client(namesrv=orderly_namesrv))
    queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)

    def read():
        subscription = Subscription.from_expression(queue.topic, "*", 1)
        query = PullQuery("dead-letter-test", queue, 0, 32, subscription, suspend=0)
        try:
            client.routes.get(queue.topic)
            return [int(m.body) for m in client.brokers.pull_now(query).messages]
        except OrderlyError:  # the broker makes the topic with its first dead letter
            return []

    return read


class Shipping:
    """Fails number BAD for ever; remembers every call in order."""

    def __init__(self, error=OSError):
        self.error = error
        self.calls = []

    def __call__(self, message, attempt):
        number = int(message.body)
        self.calls.append((number, attempt.delivery, attempt.number))
        if number == BAD:
            raise self.error("no")
        return Ack()

    @property
    def numbers(self):
        return [number for number, _, _ in self.calls]


@pytest.mark.parametrize("batch_size", [1, 4])
def test_in_place_then_suspended_then_dead_lettered(
    batch_size, producer, topic, start_member, dead_letters
):
    send_numbers(producer, topic, ["a"], 4)
    shipping = Shipping()
    start_member(
        Listener(shipping, retry=RETRY, suspend=0.05, limit=2, then=DeadLetter),
        batch_size=batch_size,
    )
    eventually(lambda: 3 in shipping.numbers, within=20)
    assert shipping.numbers == [0, BAD, BAD, BAD, BAD, BAD, BAD, 2, 3]
    tries = [(delivery, number) for n, delivery, number in shipping.calls if n == BAD]
    assert tries == [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert eventually(dead_letters) == [BAD]


def test_a_fatal_exception_is_dead_lettered_at_once(producer, topic, start_member, dead_letters):
    send_numbers(producer, topic, ["a"], 4)
    shipping = Shipping(ValueError)
    retry = Retry(attempts=5, fatal=(ValueError,))
    start_member(Listener(shipping, retry=retry, then=DeadLetter))
    eventually(lambda: 3 in shipping.numbers, within=20)
    assert shipping.numbers == [0, BAD, 2, 3]
    assert eventually(dead_letters) == [BAD]


def test_a_blocking_message_holds_its_queue_and_is_announced_each_time(
    producer, topic, start_member, dead_letters
):
    send_numbers(producer, topic, ["a"], 4)
    shipping = Shipping()
    with structlog.testing.capture_logs() as events:
        start_member(
            Listener(shipping, retry=RETRY, suspend=0.05, max_suspend=0.1, limit=1, then=Block)
        )
        announced = eventually(
            lambda: [e for e in events if e["event"] == "the message blocks its queue"][2:],
            within=20,
        )
    assert (announced[0]["topic"], announced[0]["key"], announced[0]["offset"]) == (topic, "a", BAD)
    assert set(shipping.numbers) == {0, BAD}
    assert dead_letters() == []
