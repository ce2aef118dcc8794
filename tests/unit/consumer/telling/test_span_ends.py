"""A queue that waits at its span's end is one warning, which names who holds it."""

import pytest
import structlog

from orderly.consumer.introspection import SpanEnds
from orderly.consumer.session import now
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Disposition
from tests.support.messages import message

SPAN = 4


@pytest.fixture
def ends(session):
    return SpanEnds(session)


@pytest.fixture
def queue(hold):
    held = hold(by_key=True, max_runs=9, max_span=SPAN)
    held.owned.pull_gate(now())
    return held.owned


@pytest.fixture
def warnings():
    with structlog.testing.capture_logs() as captured:
        yield captured
    structlog.reset_defaults()


def pull(queue, numbers):
    """Key "stuck" holds offset 0, and is in work; the others are finished."""
    messages = [message(n, key="tenant") for n in numbers]
    keys = ["stuck" if n % 100 == 0 else "a" for n in numbers]
    queue.pulled(messages, numbers[-1] + 1, 999, keys)
    stuck = queue.take(1, now())
    queue.finish(queue.take(99, now()), Disposition.COMMIT, now())
    queue.pull_gate(now())
    return stuck


def test_it_is_told_once_and_names_the_key_and_offset_that_hold_it(ends, queue, warnings):
    pull(queue, range(4))
    ends.log_new()
    assert warnings == [], "just as far as it may be"
    queue.pulled([message(4)], 5, 999, ["a"])
    for _ in range(3):
        ends.log_new()
    (warning,) = warnings
    assert (warning["key"], warning["offset"], warning["span"]) == ("stuck", 0, 5)
    assert (warning["log_level"], warning["why"]) == ("warning", "HANDLING")


def test_it_is_told_again_only_after_it_was_pulled_again(ends, queue, warnings):
    stuck = pull(queue, range(6))
    queue.pull_gate(now())
    ends.log_new()
    queue.finish(stuck, Disposition.COMMIT, now())
    assert queue.wants_pull
    ends.log_new()
    queue.pull_gate(now())
    ends.log_new()
    pull(queue, range(100, 110))
    ends.log_new()
    assert [warning["offset"] for warning in warnings] == [0, 100]


def test_of_a_queue_that_is_given_up_nobody_is_warned(ends, queue, warnings):
    pull(queue, range(6))
    queue.drop(Drop.REVOKED)
    ends.log_new()
    assert warnings == []
