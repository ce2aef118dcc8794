"""A batch is of one topic; what the retry topic mixes is taken apart, and nothing is lost."""

import pytest

from orderly import Ack, Listener, Message
from orderly.consumer.topic_handlers import handler_of
from orderly.errors import ConfigError
from orderly.testing import context, received


def of(topic, offset):
    return received(Message(topic, "x", "k"), offset=offset)


@pytest.fixture
def seen():
    return []


@pytest.fixture
def handler(seen):
    def noting(topic):
        def handle(messages, given):
            seen.append((topic, [m.queue_offset for m in messages]))
            return Ack()

        return handle

    made, _ = handler_of({"a": noting("a"), "b": noting("b")})
    return made


def test_messages_of_another_topic_come_again_untried(handler, seen):
    given = context(of("a", 0))
    messages = [of("a", 0), of("a", 1), of("b", 2), of("a", 3)]
    assert handler(messages, given) == Ack()
    assert seen == [("a", [0, 1])]
    assert given.untried == {2, 3}


def test_a_topic_that_nobody_handles_is_a_failure(handler):
    with pytest.raises(ConfigError, match="no handler for topic 'c'"):
        handler([of("c", 0)], context())


def test_a_call_that_was_ended_is_reported_to_a_handler_that_takes_it():
    def plain(messages, given):
        return Ack()

    made, _ = handler_of({"a": Listener(lambda m, a: Ack()), "b": plain})
    given = context(of("a", 0))
    made.call_failed([of("a", 0)], given, TimeoutError("hung"))
    assert given.suspend_seconds is not None, "the listener judged it"
    with pytest.raises(TimeoutError):
        made.call_failed([of("b", 0)], given, TimeoutError("hung"))


def test_a_dry_run_needs_all_of_them():
    fit, unfit = Listener(lambda m, a: Ack(), dry_run=True), Listener(lambda m, a: Ack())
    assert handler_of({"a": fit, "b": fit})[0].dry_run
    assert not handler_of({"a": fit, "b": unfit})[0].dry_run
