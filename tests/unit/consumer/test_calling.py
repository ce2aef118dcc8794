"""What a handler's answer comes to, where it and what the handler named disagree."""

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.calling import Caller
from orderly.consumer.session import now
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import ConsumeResult, Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message

BATCH = (message(0), message(1), message(2))
NAMED = 1


@pytest.fixture
def held(session):
    owned = OwnedQueue(QUEUE, 0, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
    return session.add(owned, Subscription("orders"))


@pytest.fixture
def call(session, held):
    """Call a handler with BATCH; it names one message for the dead letters, then answers."""

    def call(answer, *, auto_commit=True, **settings):
        def handle(messages, context):
            context.auto_commit = auto_commit
            context.dead_letter(messages[NAMED], "no such account")
            return answer

        session.config = ConsumerConfig(**settings)
        return Caller(session, handle).call(held, BATCH)

    return call


@pytest.mark.parametrize("answer", [ConsumeResult.SUCCESS, ConsumeResult.COMMIT])
def test_a_named_message_is_not_acknowledged_with_its_batch(answer, call):
    called = call(answer)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == {0, 2}, "the rest is done, as answered"


def test_nor_by_javas_acknowledging_rollback(call):
    assert call(ConsumeResult.ROLLBACK, java_compat=True).context.finished == {0, 2}


@pytest.mark.parametrize(
    "answer",
    [ConsumeResult.SUSPEND, ConsumeResult.ROLLBACK, None, True, 0, "SUCCESS", object()],
    ids=repr,
)
def test_without_an_acknowledgement_the_rest_is_not_done(answer, call):
    called = call(answer)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == set()


@pytest.mark.parametrize("answer", [ConsumeResult.SUCCESS, ConsumeResult.COMMIT])
def test_under_manual_commit_the_rest_comes_again_for_it_was_not_committed_alone(answer, call):
    called = call(answer, auto_commit=False)
    assert called.effect.disposition is Disposition.PUT_BACK
    assert called.context.finished == set()


def test_a_manual_rollback_is_one_whatever_was_named(call):
    called = call(ConsumeResult.ROLLBACK, auto_commit=False)
    assert called.effect.disposition is Disposition.ROLLBACK
