"""What a handler takes, made by hand in a test."""

import pytest

from orderly import Ack, ConsumeResult, Message, ReceivedMessage
from orderly.errors import ConfigError
from orderly.testing import attempt, context, received

ORDER = Message("orders", "paid", "order-7", tags="new", keys=("a", "b"), properties={"c": "d"})


def test_a_message_as_a_consumer_gets_it():
    found = received(ORDER, 3, offset=9)
    assert isinstance(found, ReceivedMessage)
    assert (found.topic, found.body, found.sharding_key) == ("orders", b"paid", "order-7")
    assert (found.tags, found.keys, found.properties["c"]) == ("new", ("a", "b"), "d")
    assert (found.queue_offset, found.reconsume_times) == (9, 2)
    assert received(found) is found


def test_a_context_is_of_its_message_and_says_what_became_of_it():
    message = received(ORDER, 2)
    made = context(message, group="shipping", token=5)
    assert (made.key, made.attempt, made.group, made.token) == ("order-7", 2, "shipping", 5)
    assert made.message_queue == message.queue
    assert not made.lost.is_set()
    assert made.extend() == made.deadline
    assert made.suspend(5) is ConsumeResult.SUSPEND
    made.done(message)
    assert made.finished == {0}


def test_an_attempt_is_of_its_message():
    made = attempt(ORDER, 2, token=5, replayed=True, dry_run=True)
    assert (made.number, made.key, made.token, made.message.body) == (2, "order-7", 5, b"paid")
    assert (made.replayed, made.dry_run, made.generation) == (True, True, 0)


def test_without_a_message_there_is_one():
    assert (attempt().number, context().attempt, context().token) == (1, 1, None)


def test_a_handler_and_a_function_take_them():
    def handle(messages, given):
        return Ack() if given.attempt == 2 else None

    def ship(value, given):
        return Ack() if given.key == "order-7" and value else None

    assert handle([received(ORDER)], context(ORDER, 2)) == Ack()
    assert ship({"id": 7}, attempt(ORDER)) == Ack()


@pytest.mark.parametrize(
    "call",
    [
        lambda: attempt("text"),
        lambda: attempt(ORDER, 0),
        lambda: context(ORDER, token="5"),
        lambda: context(ORDER, group=5),
        lambda: received(b"body"),
        lambda: received(ORDER, offset=-1),
    ],
)
def test_what_is_none_of_it_is_refused(call):
    with pytest.raises(ConfigError):
        call()
