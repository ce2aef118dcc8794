"""A queue given to another member stays locked until its handler has ended, however long it runs.

Java stops renewing the lock at the revocation and unlocks by force 20 s after the last renewal.
"""

import itertools
import time

import pytest

from orderly.ordering.explain import Why
from tests.support.consuming import Blocking, Group, refused_share, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(8)]
JAVA_FORCES_AFTER = 20.0


@pytest.fixture
def handler(closing):
    """Asks for `closing` so that it is released before the members are closed."""
    with Blocking() as handler:
        yield handler


@pytest.fixture
def outlast(events, handler, producer, topic, group, client, start_member):
    """Let a newcomer join `members` whose handlers all run, and these run on for `hold` seconds."""

    def outlast(members, hold, **settings):
        send_numbers(producer, topic, KEYS, 2)
        eventually(lambda: len(handler.running) == 4, within=20)
        # A patient one: it asks for the lock all the time, and knows no reason if no answer comes.
        newcomer, _ = start_member(recorder=members.seen, patient=True, **settings)
        share = eventually(lambda: refused_share(newcomer), within=20)
        eventually(lambda: leaving(members).keys() >= share, within=20)
        until = time.monotonic() + hold

        def undisturbed():
            assert share == refused_share(newcomer)
            assert leaving(members).keys() >= share
            assert not client.brokers.lock_queues(group, "broker-a", share)
            return time.monotonic() > until

        eventually(undisturbed, within=hold + 10, every=0.1)
        assert all(seconds >= hold for seconds in leaving(members).values())
        told = [e for e in events if e["event"] == "queue.release_waits"]
        assert {e["queue_id"] for e in told} >= {queue.queue_id for queue in share}
        handler.release()
        eventually(lambda: set(newcomer.assignment) == share, within=20)
        eventually(lambda: len(members.seen.deliveries) >= 2 * len(KEYS), within=20)

    return outlast


def leaving(members):
    """For how long the handlers of the queues being given up have been running."""
    everything = [e for consumer in members.consumers for e in consumer.explain()]
    return {e.queue: e.seconds for e in everything if e.why is Why.LEAVING}


def assert_each_once_and_never_two_at_a_time(seen):
    assert seen.by_key() == {key: [0, 1] for key in KEYS}
    for queue_id in range(4):
        calls = sorted((d.started, d.ended) for d in seen.deliveries if d.queue_id == queue_id)
        assert calls, "every queue had messages"
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(calls))


def test_the_lock_is_renewed_until_then(outlast, handler, start_group):
    settings = {"lock_interval": 0.3, "lock_trust": 6.0}  # a busy machine renews in time
    members = start_group(handler, **settings)
    outlast(members, 6.5, **settings)  # longer than an unrenewed lock is trusted
    assert_each_once_and_never_two_at_a_time(members.seen)


@pytest.mark.slow
def test_no_unlock_is_forced_after_javas_limit(outlast, handler, start_member):
    member, seen = start_member(handler)
    outlast(Group([member], seen), JAVA_FORCES_AFTER + 2)
    assert_each_once_and_never_two_at_a_time(seen)
