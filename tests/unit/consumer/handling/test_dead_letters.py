"""A dead letter is sent only under a lock renewed just before, and counts only once stored."""

import math
from dataclasses import replace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.handling.dead_letters import DeadLetters
from orderly.consumer.session import now
from orderly.errors import OrderlyError
from orderly.ordering.context import ConsumeContext
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.protocol.heartbeat import Subscription
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
def held(session):
    owned = OwnedQueue(QUEUE, 0, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
    return session.add(owned, Subscription("orders"))


@pytest.fixture
def context():
    return ConsumeContext(QUEUE)


@pytest.fixture
def dead_letters(session):
    return DeadLetters(session)


def failed(offset, times=LIMIT):
    return replace(message(offset), reconsume_times=times)


def test_each_is_sent_after_a_renewal_of_the_lock(dead_letters, cluster, held, context, sent):
    before = held.owned.lease.renewed_at
    assert dead_letters.bury(held, (failed(0), failed(1)), context) == {0, 1}
    assert cluster.calls == [LOCK, SEND, LOCK, SEND]
    assert held.owned.lease.renewed_at > before


def test_only_those_over_the_limit_or_named_are_sent(dead_letters, held, context, sent):
    context.dead_letter(message(3), "")
    batch = (failed(0, LIMIT - 1), failed(1), failed(2, LIMIT + 5), failed(3, 0))
    assert dead_letters.bury(held, batch, context) == {1, 2, 3}
    assert len(sent) == 3


def test_what_is_done_or_was_not_tried_is_not_sent(dead_letters, held, context, sent):
    context.done(failed(0))
    context.not_tried(failed(1))
    assert dead_letters.bury(held, (failed(0), failed(1)), context) == {0}
    assert sent == []


def test_without_a_limit_only_the_named_are_sent(dead_letters, session, held, context, sent):
    session.config = ConsumerConfig()
    assert dead_letters.bury(held, (failed(0, 10**6),), context) == frozenset()
    assert sent == []


def test_after_one_that_could_not_be_stored_no_other_is_tried(
    dead_letters, cluster, held, context, sent, failure
):
    cluster.during["send"] = lambda: sent and cluster.fail.update(send=failure)
    assert dead_letters.bury(held, (failed(0), failed(1), failed(2)), context) == {0}
    assert cluster.calls.count(SEND) == 2


def test_one_that_cannot_even_be_written_is_not_lost(dead_letters, held, context, sent):
    too_long = replace(failed(0), properties={"p": "x" * 32760})
    assert dead_letters.bury(held, (too_long,), context) == frozenset()
    assert sent == []


def test_a_renewal_that_failed_sends_nothing_and_gives_nothing_up(
    dead_letters, cluster, held, context, sent
):
    cluster.fail["lock"] = OrderlyError("made by the test")
    assert dead_letters.bury(held, (failed(0),), context) == frozenset()
    assert sent == []
    assert held.owned.dropped is None


def test_a_lock_that_another_client_has_is_given_up_at_once(
    dead_letters, cluster, session, held, context, sent
):
    cluster.locks[QUEUE] = "other@2"
    asked = []
    session.attention = lambda: asked.append("round")
    assert dead_letters.bury(held, (failed(0),), context) == frozenset()
    assert (sent, asked, held.owned.dropped) == ([], ["round"], Drop.LOST)


def test_a_lease_that_ran_out_meanwhile_sends_nothing(dead_letters, held, context, sent):
    held.owned.lease = Lease(-math.inf, 30.0)
    held.owned.keeps_lock(now())
    assert dead_letters.bury(held, (failed(0),), context) == frozenset()
    assert sent == []
