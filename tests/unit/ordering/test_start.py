"""The table of start positions, and the dialogue that takes and hands on a queue."""

from datetime import UTC, datetime

import pytest

from orderly.errors import BrokerBusy, BrokerError, RequestTimeout
from orderly.ordering.calls import (
    MaxOffset,
    MinOffset,
    QueryOffset,
    SaveOffset,
    SearchOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.handover import find_start, hand_on
from orderly.ordering.start import Start, start_of
from tests.support.messages import QUEUE

MOMENT = datetime(2013, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("consume_from", "topic", "start"),
    [
        ("first", "orders", Start.MIN),
        ("first", "%RETRY%g", Start.MIN),
        ("last", "orders", Start.MAX),
        ("last", "%RETRY%g", Start.MIN),
        (MOMENT, "orders", Start.TIME),
        (MOMENT, "%RETRY%g", Start.MAX),
    ],
)
def test_table(consume_from, topic, start):
    assert start_of(consume_from, topic) is start


class Broker:
    """Answers calls from a dict; an exception in it is raised. Records what was asked."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def __call__(self, call):
        self.asked.append(call)
        answer = self.answers.get(type(call))
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_committed_offset_wins_and_zero_is_one():
    broker = Broker({QueryOffset: 0})
    assert converse(find_start(QUEUE, "last"), broker) == 0
    assert broker.asked == [QueryOffset(QUEUE)]


@pytest.mark.parametrize(
    ("consume_from", "call"),
    [
        ("first", MinOffset(QUEUE)),
        ("last", MaxOffset(QUEUE)),
        (MOMENT, SearchOffset(QUEUE, MOMENT)),
    ],
)
def test_without_one_the_start_is_computed_once_and_committed_first(consume_from, call):
    broker = Broker({QueryOffset: None, type(call): 7})
    assert converse(find_start(QUEUE, consume_from), broker) == 7
    assert broker.asked == [QueryOffset(QUEUE), call, SaveOffset(QUEUE, 7)]


@pytest.mark.parametrize("failing", [QueryOffset, MaxOffset, SaveOffset])
def test_any_failure_is_an_error_and_never_a_guess(failing):
    answers = {QueryOffset: None, MaxOffset: 7} | {failing: RequestTimeout("late")}
    with pytest.raises(RequestTimeout):
        converse(find_start(QUEUE, "last"), Broker(answers))


def test_handing_on_saves_before_it_unlocks():
    broker = Broker({})
    assert converse(hand_on(QUEUE, 5), broker) is None
    assert broker.asked == [SaveOffset(QUEUE, 5), UnlockQueues("broker-a", (QUEUE,))]


def test_handing_on_what_is_saved_only_unlocks():
    broker = Broker({})
    converse(hand_on(QUEUE, None), broker)
    assert broker.asked == [UnlockQueues("broker-a", (QUEUE,))]


@pytest.mark.parametrize("error", [RequestTimeout("late"), BrokerBusy("busy", code=2)])
def test_a_save_that_may_succeed_later_keeps_the_lock(error):
    broker = Broker({SaveOffset: error})
    with pytest.raises(type(error)):
        converse(hand_on(QUEUE, 5), broker)
    assert UnlockQueues("broker-a", (QUEUE,)) not in broker.asked


def test_a_final_refusal_is_reported_and_the_queue_unlocked():
    refusal = BrokerError("no such topic", code=17)
    broker = Broker({SaveOffset: refusal})
    assert converse(hand_on(QUEUE, 5), broker) is refusal
    assert broker.asked[-1] == UnlockQueues("broker-a", (QUEUE,))
