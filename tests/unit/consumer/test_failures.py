"""What is remembered of failing messages: how and since when, and nothing of what they hold."""

import pytest

from orderly import Ack, Fail, Suspend, listener
from orderly.config import ConsumerConfig
from orderly.consumer.handler_caller import Caller, Mode
from orderly.consumer.session import Failures
from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.results import ConsumeResult
from tests.support.messages import message

ONE, OTHER = Fingerprint("1", "ValueError"), Fingerprint("2", "OSError")


def test_it_counts_from_the_first_failure_and_tells_the_last():
    failures = Failures()
    failures.failed("a", 5, ONE, 10.0)
    failures.failed("a", 5, OTHER, 12.0)
    assert (failures.of("a", 5).since, failures.of("a", 5).fingerprint) == (10.0, OTHER)
    assert failures.of("b", 5) is None


def test_another_message_of_the_key_begins_anew():
    failures = Failures()
    failures.failed("a", 5, ONE, 10.0)
    assert failures.of("a", 6) is None
    failures.failed("a", 6, ONE, 20.0)
    assert failures.of("a", 6).since == 20.0


def test_a_message_that_succeeded_fails_no_more():
    failures = Failures()
    failures.succeeded("a")
    failures.failed("a", 5, ONE, 10.0)
    failures.succeeded("a")
    assert failures.of("a", 5) is None


def test_only_so_many_keys_are_remembered():
    failures = Failures()
    for number in range(5000):
        failures.failed(number, 0, ONE, float(number))
    assert failures.of(0, 0) is None
    assert failures.of(4999, 0).since == 4999.0


def call(session, held, answer, mode=Mode.LIVE):
    def handler(messages, context):
        if isinstance(answer, BaseException):
            raise answer
        return answer(messages, context) if callable(answer) else answer

    Caller(session, handler).call(held, (message(7),), "key", mode)
    return held.failures.of("key", 7)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (ValueError("4711"), "ValueError"),
        (Fail("4711"), "answered Fail"),
        (Suspend(1), "answered Suspend"),
        (ConsumeResult.SUSPEND, "answered SUSPEND"),
        (None, "answered NoneType"),
    ],
)
def test_each_way_to_fail_is_noted_without_what_the_message_says(answer, text, session, held):
    failing = call(session, held, answer)
    assert failing.fingerprint.text.startswith(text)
    assert "4711" not in failing.fingerprint.text
    assert call(session, held, Ack()) is None


@pytest.mark.parametrize("mode", [Mode.REPLAY, Mode.DRY_RUN])
def test_a_replay_says_nothing_about_the_queue(mode, session, held):
    assert call(session, held, ValueError(), mode) is None


def test_a_listener_tells_how_its_function_failed(session, held):
    @listener
    def ship(message, attempt):
        raise LookupError("no such account")

    session.config = ConsumerConfig()
    assert call(session, held, ship).fingerprint.text.startswith("LookupError: no such account")
