"""What a handler may set: only what is allowed, and each thing apart."""

import math
import threading

import pytest

from orderly.errors import ConfigError, LockLost
from orderly.ordering.context import ConsumeContext, Failure
from orderly.ordering.results import ConsumeResult
from tests.support.messages import QUEUE, message


@pytest.fixture
def context():
    return ConsumeContext(QUEUE)


@pytest.mark.parametrize("seconds", [0.01, 1, 30.0])
def test_suspend_takes_10_ms_to_30_s_and_is_an_answer(seconds, context):
    assert context.suspend(seconds) is ConsumeResult.SUSPEND
    assert context.suspend_seconds == seconds


@pytest.mark.parametrize("seconds", [0.00999, 0, -1, 30.001, math.inf, math.nan, True, "1"])
def test_another_wait_is_refused_and_the_consumers_setting_stays(seconds, context):
    with pytest.raises(ConfigError, match=r"0\.01 to 30"):
        context.suspend(seconds)
    assert context.suspend_seconds is None


def test_to_park_is_an_answer_and_says_at_which_attempt(context):
    known = Failure("no", attempts=3)
    assert context.park(message(5), "no such account") is ConsumeResult.SUSPEND
    context.park(message(6), "no", known)
    assert context.parked == {5: Failure("no such account", attempts=1), 6: known}


def test_a_consumer_by_key_allows_longer_waits():
    context = ConsumeContext(QUEUE, max_suspend=3600)
    context.suspend(600)
    assert context.suspend_seconds == 600
    with pytest.raises(ConfigError, match=r"0\.01 to 3600"):
        context.suspend(3601)


def test_a_dead_letter_is_an_answer_too_and_concerns_one_message(context):
    assert context.dead_letter(message(3), "no such account") is ConsumeResult.SUSPEND
    context.done(message(4))
    context.not_tried(message(5))
    assert (context.rejected, context.finished, context.untried) == (
        {3: "no such account"},
        {4},
        {5},
    )


def test_what_one_call_sets_is_not_seen_by_the_next(context):
    context.done(message(1))
    assert ConsumeContext(QUEUE).finished == set()


class Owning:
    """A ownership whose lock can be renewed once."""

    def __init__(self):
        self.token, self.deadline, self.lost = 7, 100.0, threading.Event()

    def extend(self):
        if self.lost.is_set():
            raise LockLost("gone")
        self.deadline += 30.0
        return self.deadline


def test_what_is_asked_is_asked_of_the_ownership_each_time():
    owning = Owning()
    context = ConsumeContext(QUEUE, key="k", ownership=owning)
    assert (context.key, context.token, context.deadline) == ("k", 7, 100.0)
    assert context.extend() == 130.0
    assert context.deadline == 130.0
    assert not context.lost.is_set()
    owning.lost.set()
    assert context.lost.is_set()
    assert context.lost.wait(0)
    with pytest.raises(LockLost):
        context.extend()


def test_made_by_hand_it_owns_nothing_and_loses_nothing(context):
    assert (context.key, context.token, context.deadline) == (None, None, math.inf)
    assert context.extend() == math.inf
    assert not context.lost.is_set()
    assert not context.lost.wait(1000), "it does not block a handler's test"
