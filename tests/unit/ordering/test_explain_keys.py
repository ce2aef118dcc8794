"""Why a key is where it is: every reason, and what is told with it."""

import pytest

from orderly.ordering.explain_keys import KeyWhy, explain_keys
from orderly.ordering.lanes import LANE_BODIES, SUSPENDED_BODIES
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.ordering.results import Disposition
from tests.support.messages import QUEUE, message

NOW = 10.0


def owned(keys):
    queue = OwnedQueue(
        QUEUE, 0, Lease(0.0, 30.0), max_messages=10_000, max_bytes=10**9, by_key=True, max_runs=9
    )
    queue.pull_gate(0)
    queue.pulled([message(i) for i in range(len(keys))], len(keys), None, keys)
    return queue


def told(queue, key):
    (explanation,) = [e for e in explain_keys(queue, NOW) if e.key == key]
    return explanation


def test_a_running_handler_and_a_key_that_waits_for_its_turn():
    queue = owned(["a", "b", "a"])
    queue.take(1, NOW - 3)
    running, waiting = told(queue, "a"), told(queue, "b")
    assert (running.why, running.seconds) == (KeyWhy.HANDLING, 3.0)
    assert (running.offset, running.attempt, running.unfinished) == (0, 1, 2)
    assert (waiting.why, waiting.seconds, waiting.offset) == (KeyWhy.WAITING, None, 1)


def test_a_suspended_key_says_for_how_much_longer_and_which_attempt_is_next():
    queue = owned(["a"])
    batch = queue.take(1, NOW - 1)
    queue.finish(batch, Disposition.PUT_BACK, NOW - 1, wait=4.0)
    assert (told(queue, "a").why, told(queue, "a").seconds) == (KeyWhy.SUSPENDED, 3.0)
    assert told(queue, "a").attempt == 2


def test_a_key_whose_bodies_are_not_here():
    queue = owned(["a"] * (LANE_BODIES + 5))
    batch = queue.take(1, 0)
    queue.finish(batch, Disposition.PUT_BACK, 0, wait=1.0)
    queue.wake(2.0)
    for _ in range(SUSPENDED_BODIES):
        queue.finish(queue.take(1, 2), Disposition.COMMIT, 2)
    fetching = told(queue, "a")
    assert (fetching.why, fetching.attempt) == (KeyWhy.FETCHING, 1)
    assert fetching.offset == SUSPENDED_BODIES
    assert fetching.unfinished == LANE_BODIES + 5 - SUSPENDED_BODIES


def test_a_key_that_only_a_commit_frees():
    queue = owned(["a"])
    queue.finish(queue.take(1, 0), Disposition.KEEP, 0)
    assert told(queue, "a").why is KeyWhy.UNCOMMITTED


def test_a_finished_key_is_not_told_of():
    queue = owned(["a", "b"])
    queue.finish(queue.take(1, 0), Disposition.COMMIT, 0)
    assert [e.key for e in explain_keys(queue, NOW)] == ["b"]


@pytest.mark.parametrize("key", [None, "a", ("tenant", 7)])
def test_people_can_read_it(key):
    queue = owned([key])
    queue.take(1, NOW - 2.5)
    assert str(told(queue, key)) == f"{QUEUE}, key {key!r} at 0: a handler is running (2.5 s)"


def test_a_parked_key_is_told_with_and_without_messages_that_are_still_to_be_parked():
    queue = owned(["a", "b", "b"])
    queue.parking.note("b", 1, 40, 100)
    queue.parking.note("gone", 7, 41, 100)
    waiting, at_rest = told(queue, "b"), told(queue, "gone")
    assert (waiting.why, waiting.offset, waiting.unfinished) == (KeyWhy.PARKED, 1, 2)
    assert (at_rest.why, at_rest.offset, at_rest.unfinished) == (KeyWhy.PARKED, 7, 0)
    assert waiting.parked == at_rest.parked == 1
    assert told(queue, "a").parked == 0


def test_a_parked_key_that_cannot_be_parked_further_says_that_it_waits():
    queue = owned(["a"])
    queue.parking.note("a", 0, 40, 100)
    batch = queue.take(1, NOW - 1)
    assert told(queue, "a").why is KeyWhy.HANDLING
    queue.finish(batch, Disposition.PUT_BACK, NOW - 1, wait=4.0)
    assert told(queue, "a").why is KeyWhy.SUSPENDED
