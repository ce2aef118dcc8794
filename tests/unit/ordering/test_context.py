"""What a handler may set: only what is allowed, and each thing apart."""

import math

import pytest

from orderly.errors import ConfigError
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import ConsumeResult
from tests.support.messages import QUEUE, message


@pytest.fixture
def context():
    return ConsumeContext(QUEUE)


@pytest.mark.parametrize("seconds", [0.01, 1, 30.0])
def test_suspend_takes_10_ms_to_30_s_and_is_an_answer(seconds, context):
    assert context.suspend(seconds) is ConsumeResult.SUSPEND
    assert context.suspend_seconds == seconds


@pytest.mark.parametrize("seconds", [0.00999, 0, -1, 30.001, math.inf, math.nan])
def test_another_wait_is_refused_and_the_consumers_setting_stays(seconds, context):
    with pytest.raises(ConfigError, match=r"0\.01 to 30"):
        context.suspend(seconds)
    assert context.suspend_seconds is None


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
