"""A dead letter is sent only under a lock renewed just before, and counts only once stored."""

from dataclasses import replace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.dead_letter_sender import DeadLetterSender
from orderly.errors import OrderlyError
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message

LIMIT = 2
LOCK, SEND = ("lock", "broker-a"), ("send", QUEUE)


@pytest.fixture
def sent(cluster, session):
    """The requests the cluster stored; the session's limit is LIMIT."""
    stored = []

    def send_now(queue, command):
        cluster._note("send", queue)
        stored.append(command)

    cluster.send_now = send_now
    session.config = ConsumerConfig(max_reconsume_times=LIMIT)
    return stored


@pytest.fixture
def context():
    return ConsumeContext(QUEUE)


@pytest.fixture
def dead_letters(session):
    return DeadLetterSender(session)


def failed(offset, times=LIMIT):
    return replace(message(offset), reconsume_times=times)


def test_what_is_done_or_was_not_tried_is_not_sent(dead_letters, held, context, sent):
    context.done(failed(0))
    context.not_tried(failed(1))
    assert dead_letters.send_to_dlq(held, (failed(0), failed(1)), context) == frozenset()
    assert sent == []


def test_after_one_that_could_not_be_stored_no_other_is_tried(
    dead_letters, cluster, held, context, sent, failure
):
    cluster.during["send"] = lambda: sent and cluster.fail.update(send=failure)
    assert dead_letters.send_to_dlq(held, (failed(0), failed(1), failed(2)), context) == {0}
    assert cluster.calls.count(SEND) == 2


def test_one_that_cannot_even_be_written_is_not_lost(dead_letters, held, context, sent):
    too_long = replace(failed(0), properties={"p": "x" * 32760})
    assert dead_letters.send_to_dlq(held, (too_long,), context) == frozenset()
    assert sent == []


def test_a_renewal_that_failed_sends_nothing_and_gives_nothing_up(
    dead_letters, cluster, held, context, sent
):
    cluster.fail["lock"] = OrderlyError("made by the test")
    assert dead_letters.send_to_dlq(held, (failed(0),), context) == frozenset()
    assert sent == []
    assert held.owned.dropped is None
