"""What is unfinished for so long that the broker is going to delete it."""

from dataclasses import replace

import pytest

from orderly.ordering.explain import Why, explain
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

NOW, TODAY, HOUR = 1.0, 1_000_000.0, 3600.0
RETENTION = 10 * HOUR


def queue_of(*ages, keys="abcdefgh", room=100, by_key=True):
    """A queue with messages that were stored so many hours ago, of a key each."""
    queue = OwnedQueue(
        QUEUE, 0, Lease(0.0, 30.0), max_messages=room, max_bytes=10**6, by_key=by_key, max_runs=9
    )
    messages = [
        replace(message(offset), store_time=TODAY - age * HOUR) for offset, age in enumerate(ages)
    ]
    queue.pulled(messages, len(ages), None, list(keys[: len(ages)]) if by_key else None)
    return queue


def look(queue, *, act=True):
    return queue.look_at_ages(NOW, TODAY, RETENTION, act=act)


def fail(queue, wait=60.0):
    batch = queue.take(1, NOW)
    queue.finish(batch, Disposition.PUT_BACK, NOW, wait=wait)
    return batch


@pytest.mark.parametrize("by_key", [True, False])
def test_at_half_of_the_retention_it_is_told_once(by_key):
    queue = queue_of(5, 1, by_key=by_key)
    assert look(queue)
    assert not look(queue), "told before"
    assert queue.expires_in(NOW + 60) == 5 * HOUR - 60
    fail(queue)
    explained = explain(queue, NOW)
    assert (explained.why, explained.seconds) == (Why.EXPIRING, 5 * HOUR)


def test_before_that_nothing_is_told():
    queue = queue_of(4.9)
    assert not look(queue)
    assert queue.expires_in(NOW) is None
    assert explain(queue, NOW).expires_in is None


def test_another_key_that_is_handled_does_not_hide_it():
    queue = queue_of(6, 1)
    fail(queue)
    look(queue)
    queue.take(1, NOW)
    explained = explain(queue, NOW)
    assert (explained.why, explained.expires_in) == (Why.HANDLING, 4 * HOUR)
    assert "(14400 s)" in str(explained)


def test_once_it_is_finished_it_is_over():
    queue = queue_of(6, 1)
    look(queue)
    queue.finish(queue.take(1, NOW), Disposition.COMMIT, NOW)
    assert queue.expires_in(NOW) is None
    assert not look(queue)
    assert queue.last_tries == {}


def test_the_body_may_have_been_let_go():
    queue = queue_of(9, 8, 7, room=1)
    for _ in range(3):
        fail(queue)
    assert queue.messages.deferred == 2
    assert look(queue)
    assert queue.last_tries == {"a": 0, "b": 1}


def test_at_three_quarters_a_key_has_its_last_try():
    queue = queue_of(8, 7.5, 7)
    look(queue)
    assert queue.last_tries == {"a": 0, "b": 1}
    batch = queue.take(1, NOW)
    assert queue.last_try(batch) == 0
    assert queue.last_try(batch) is None, "asked once"


def test_what_comes_behind_the_old_one_has_no_last_try():
    queue = queue_of(8, 1, keys="aa")
    look(queue)
    queue.finish(queue.take(1, NOW), Disposition.COMMIT, NOW)
    assert queue.last_try(queue.take(1, NOW)) is None


def test_where_nothing_is_taken_out_of_the_way_there_is_no_last_try():
    queue = queue_of(9)
    assert look(queue, act=False)
    assert queue.last_tries == {}
