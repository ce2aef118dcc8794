"""The trouble made on purpose: chosen by seed, failing exactly as announced, timed right."""

import pytest

from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.trouble import (
    FAILURES,
    EngineTroubleError,
    FailingMessage,
    TakeOver,
    pick_failing,
)
from orderly.model import MessageQueue
from orderly.ordering.outcomes import Ack, Suspend

QUEUE, OTHER = MessageQueue("t", "b", 3), MessageQueue("t", "b", 4)


def event(number, tail):
    return FlightEvent(number, number, "departure", tail, "UA1", "EWR", "IAH")


EVENTS = [event(n, f"busy{n % 5}" if n % 3 else f"once{n}") for n in range(400)]


def test_the_same_seed_picks_the_same_event_early_and_of_a_busy_aircraft():
    picks = [pick_failing(EVENTS, seed) for seed in range(50)]
    assert picks == [pick_failing(EVENTS, seed) for seed in range(50)]
    assert len(set(picks)) > 10
    assert all(20 <= pick < 100 and EVENTS[pick].tail.startswith("busy") for pick in picks)


@pytest.mark.parametrize("count", [1, 2, 30])
def test_few_events_are_enough(count):
    assert 0 <= pick_failing(EVENTS[:count], 1) < count


def test_it_fails_three_times_and_then_succeeds():
    failing = FailingMessage(7, "N1", "N1's departure")
    assert not failing.waiting
    with pytest.raises(EngineTroubleError):
        failing.handle(QUEUE, 1.0, others=10)
    assert failing.waiting
    assert "N1's departure: the handler raised; N1 waits" in failing.last_attempt()
    assert failing.handle(QUEUE, 1.5, others=20) == Suspend()
    with pytest.raises(EngineTroubleError):
        failing.handle(QUEUE, 2.0, others=30)
    assert "not seen again" in failing.story()
    assert failing.handle(QUEUE, 2.5, others=1010) == Ack()
    assert not failing.waiting
    assert len(FAILURES) == 3
    assert failing.story() == (
        "N1's departure in queue 3: failed 3 times, done at attempt 4 after 1.5 s; meanwhile"
        " 1,000 events of other aircraft were handled"
    )


def test_a_take_over_ends_with_the_last_queue_s_first_message():
    take_over = TakeOver(10.0, frozenset({QUEUE, OTHER}))
    take_over.delivered(MessageQueue("t", "b", 0), 10.1)
    take_over.delivered(QUEUE, 10.2)
    assert not take_over.over(drained=set())
    assert take_over.over(drained={OTHER})
    take_over.delivered(OTHER, 10.5)
    take_over.delivered(QUEUE, 99.0)
    assert take_over.over(drained=set())
    assert take_over.seconds == pytest.approx(0.5)


def test_a_take_over_of_drained_queues_has_no_time():
    take_over = TakeOver(10.0, frozenset({QUEUE}))
    assert take_over.over(drained={QUEUE})
    assert take_over.seconds is None
    assert "nothing left" in take_over.story()
