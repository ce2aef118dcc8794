"""The trouble made on purpose: chosen by seed, failing exactly as announced, timed right."""

from __future__ import annotations

from datetime import datetime

import pytest

from orderly.cli.demo.flights import DAY, FlightEvent
from orderly.cli.demo.trouble import (
    FAILURES,
    EngineTroubleError,
    FailingEvent,
    Parking,
    TakeOver,
    pick_bad,
    pick_failing,
    read_time,
    read_time_fixed,
)
from orderly.model import MessageQueue
from orderly.ordering.results import Ack, Suspend

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
    failing = FailingEvent(7, "N1", "N1's departure")
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


BAD_EVENTS = [
    FlightEvent(DAY + n, n, "arrival", f"N{n % 7 if n % 3 else n}", "UA1", "EWR", "IAH")
    for n in range(400)
]


def test_it_comes_early_and_many_of_its_aircraft_follow():
    bad = pick_bad(BAD_EVENTS, 200)
    assert 200 <= bad.number < 220
    assert BAD_EVENTS[bad.number].tail == bad.key
    assert sum(event.tail == bad.key for event in BAD_EVENTS[bad.number :]) > 15
    assert not any(event.tail == bad.key for event in BAD_EVENTS[200 : bad.number])


@pytest.mark.parametrize("count", [1, 2, 30])
def test_few_events_are_enough_for_a_bad_record(count):
    assert pick_bad(BAD_EVENTS[:count], count // 2).number >= count // 2


def test_only_the_mended_code_reads_its_time():
    time = pick_bad(BAD_EVENTS, 200).time
    assert time == "2013-01-02T24:00"
    with pytest.raises(ValueError, match="2013-01-02T24:00"):
        read_time(time)
    assert read_time_fixed(time) == datetime(2013, 1, 3)  # noqa: DTZ001  a local clock


@pytest.mark.parametrize("read", [read_time, read_time_fixed])
def test_both_read_all_other_times(read):
    assert read("2013-01-02T23:59") == datetime(2013, 1, 2, 23, 59)  # noqa: DTZ001  as above


def test_what_was_not_parked_or_not_released_is_no_success():
    bad = pick_bad(BAD_EVENTS, 200)
    assert not Parking(bad).ok
    assert "never parked" in Parking(bad).story(replayed=0, meanwhile=0)
    assert "not released" in Parking(bad, parked_at=1.0).story(replayed=0, meanwhile=0)
