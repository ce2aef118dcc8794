"""The table of start positions, and the dialogue that finds a queue's start."""

from datetime import UTC, datetime

import pytest

from orderly.errors import OrderlyError, RequestTimeout
from orderly.ordering.calls import (
    MaxOffset,
    MinOffset,
    Peek,
    Peeked,
    QueryOffset,
    SaveOffset,
    SearchOffset,
    converse,
)
from orderly.ordering.generation import Landmark
from orderly.ordering.handover import Begin, find_start
from orderly.ordering.start import Start, for_later_queue, start_of
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


@pytest.mark.parametrize(
    ("consume_from", "later"), [("first", "first"), ("last", "first"), (MOMENT, MOMENT)]
)
def test_a_queue_that_appears_later_begins_with_its_first_message_or_at_the_time(
    consume_from, later
):
    assert for_later_queue(consume_from) == later


class Broker:
    """Answers calls from a dict; an exception in it is raised. Records what was asked.

    Args:
        answers: by type of call.
        forgets: how many saved offsets it acknowledges and loses.
    """

    def __init__(self, answers, forgets=0):
        self.answers = answers
        self.forgets = forgets
        self.asked = []

    def __call__(self, call):
        self.asked.append(call)
        answer = self.answers.get(type(call))
        if isinstance(answer, Exception):
            raise answer
        if isinstance(call, Peek):
            return Peeked(stored_at=1000 + call.offset, end=9)
        if isinstance(call, MinOffset):
            return answer or 0
        if isinstance(call, SaveOffset):
            self.forgets -= 1
            if self.forgets < 0:
                self.answers[QueryOffset] = call.offset
        return answer


def test_a_committed_offset_wins_and_zero_is_one():
    broker = Broker({QueryOffset: 0})
    assert converse(find_start(QUEUE, "last"), broker) == Begin(0)
    assert broker.asked == [QueryOffset(QUEUE)]


@pytest.mark.parametrize(
    ("consume_from", "calls", "passed_over"),
    [
        ("first", [MinOffset(QUEUE)], None),
        ("last", [MinOffset(QUEUE), MaxOffset(QUEUE)], (0, 7)),
        (MOMENT, [MinOffset(QUEUE), SearchOffset(QUEUE, MOMENT)], (0, 7)),
    ],
)
def test_without_one_the_start_is_computed_once_and_committed_first(
    consume_from, calls, passed_over
):
    broker = Broker({QueryOffset: None, type(calls[-1]): 7})
    found = converse(find_start(QUEUE, consume_from), broker)
    assert found == Begin(7, Landmark(6, 1006), passed_over=passed_over)
    committed = [SaveOffset(QUEUE, 7), QueryOffset(QUEUE)]
    assert broker.asked == [QueryOffset(QUEUE), *calls, *committed, Peek(QUEUE, 6)]


@pytest.mark.parametrize("forgets", [1, 2])
def test_a_start_that_the_broker_lost_is_committed_again(forgets):
    broker = Broker({QueryOffset: None, MaxOffset: 7}, forgets)
    assert converse(find_start(QUEUE, "last"), broker).start == 7
    assert broker.asked.count(SaveOffset(QUEUE, 7)) == forgets + 1
    assert broker.asked.count(MaxOffset(QUEUE)) == 1  # a second look would skip messages


def test_nothing_is_pulled_from_a_start_that_is_not_kept():
    with pytest.raises(OrderlyError, match="acknowledged the offset 7"):
        converse(find_start(QUEUE, "last"), Broker({QueryOffset: None, MaxOffset: 7}, forgets=99))


@pytest.mark.parametrize("failing", [QueryOffset, MinOffset, MaxOffset, SaveOffset, Peek])
def test_any_failure_is_an_error_and_never_a_guess(failing):
    answers = {QueryOffset: None, MaxOffset: 7} | {failing: RequestTimeout("late")}
    with pytest.raises(RequestTimeout):
        converse(find_start(QUEUE, "last"), Broker(answers))
