"""What the program is told of its queues: each thing once, and nothing of our retry topic."""

import pytest
import structlog

from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.session import now
from orderly.model import MessageQueue
from orderly.ordering.drop import Drop
from orderly.ordering.lease import Lease
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.results import Disposition
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message


@pytest.fixture
def told(session):
    """What the hooks were told: (hook, queues)."""
    found = []
    session.hooks = ConsumerHooks(
        assigned=lambda queues: found.append(("assigned", queues)),
        revoked=lambda queues: found.append(("revoked", queues)),
        lost=lambda queues: found.append(("lost", queues)),
    )
    return found


def test_queues_of_the_retry_topic_are_not_the_programs(session, told):
    retry = MessageQueue("%RETRY%group", "broker-a", 0)
    session.hooks.tell("assigned", session.log, (retry, QUEUE))
    session.hooks.tell("revoked", session.log, (retry,))
    assert told == [("assigned", (QUEUE,))]


def test_a_loss_is_told_at_once_and_once_however_long_the_handler_still_runs(
    session, releaser, told
):
    owned = OwnedQueue(QUEUE, 0, Lease(now(), 30.0), max_messages=100, max_bytes=10**6)
    held = session.add(owned, Subscription("orders"))
    held.introduced = True
    owned.pulled([message(0)], 1)
    batch = owned.take(1, now())
    releaser.drop(held, Drop.LOST)
    for _ in range(3):
        assert not releaser.release_idle()
    assert told == [("lost", (QUEUE,))]
    owned.finish(batch, Disposition.COMMIT, now())
    releaser.release_idle()
    assert told == [("lost", (QUEUE,))]
    assert session.held() == []


def test_what_a_hook_raises_is_told_without_the_body_it_could_not_read(session):
    session.hooks = ConsumerHooks(assigned=lambda queues: b"card=4111 \xff".decode())
    with structlog.testing.capture_logs() as events:
        session.hooks.tell("assigned", session.log, (QUEUE,))
    structlog.reset_defaults()
    (event,) = events
    assert event["error"].startswith("UnicodeDecodeError: 'utf-8' codec can't decode")
    assert "4111" not in event["error"]
