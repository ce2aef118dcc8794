"""A broker's clock is worked out from one message's age, never too late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orderly.monitoring.backlog.reading import (
    NOT_READ,
    BrokerReading,
    DeadLetters,
    GroupReading,
    Head,
)
from orderly.monitoring.collecting.ages import (
    AgesAsked,
    DeadAges,
    TimeSpans,
    clock_offsets,
    dead_letters,
    dead_topic,
    oldest_at,
    oldest_of,
    questions_of,
)
from orderly.protocol.statistics import TimeSpan
from tests.support.snapshots import queue, scan_of

ASKED = AgesAsked("g", "orders", "broker-a")


def head(stored_at):
    return Head(0, "k", "", stored_at, 0.0, 0, 1)


def offsets(*delays, stored=(100.0, 100.0), at=150.0):
    spans = {queue(n): TimeSpan(None, None, delay) for n, delay in enumerate(delays)}
    heads = {("g", queue(n)): head(stored[n]) for n in range(len(delays))}
    return clock_offsets({ASKED: TimeSpans(spans, at)}, heads)


def test_stored_at_plus_delay_is_the_brokers_time():
    assert offsets(57.0) == {"broker-a": 7.0}
    assert offsets(43.0) == {"broker-a": -7.0}


def test_a_queue_that_moved_on_meanwhile_does_not_pull_the_clock_back():
    assert offsets(57.0, 3.0) == {"broker-a": 7.0}


def test_without_a_delay_or_a_head_nothing_is_known():
    assert offsets(None, 0.0) == {}
    assert clock_offsets({ASKED: TimeSpans({queue(): TimeSpan(None, None, 5.0)}, 1.0)}, {}) == {}


DEAD = "%DLQ%g"
ASKED_AGES = AgesAsked("g", DEAD, "broker-a")


def reading(*spans):
    return dead_topic(scan_of({}, **{DEAD: spans}), "g")


def spans(*moments):
    told = {queue(n, DEAD): TimeSpan(at, None, None) for n, at in enumerate(moments)}
    return {ASKED_AGES: TimeSpans(told, 0.0)}


def test_what_is_stored_is_counted_and_the_offsets_give_the_inflow():
    assert dead_letters(reading((2, 5), (0, 4)), 77.0) == DeadLetters(7, 77.0, 9)
    assert dead_letters(reading((5, 5)), 77.0) == DeadLetters(0, None, 5)


@pytest.mark.parametrize("span", [(NOT_READ, 4), (0, NOT_READ)])
def test_a_part_is_never_passed_off_as_the_whole(span):
    assert reading((0, 4), span) is None
    assert dead_topic(scan_of({}), "g") is None


def test_without_a_topic_there_are_none_unless_a_broker_kept_silent():
    scan = scan_of({}, groups=("g",))
    assert DeadAges().with_dead(GroupReading("g"), scan).dead == DeadLetters(0, None, 0)
    silent = replace(scan, brokers={"broker-b": BrokerReading("broker-b", error="silent")})
    assert DeadAges().with_dead(GroupReading("g"), silent).dead is None


def test_the_oldest_of_all_queues_counts_and_empty_ones_do_not():
    oldest = oldest_of(reading((2, 5), (0, 4), (3, 3)))
    assert oldest == {(queue(0, DEAD), 2), (queue(1, DEAD), 0)}
    assert questions_of("g", oldest) == [ASKED_AGES]
    assert oldest_at(oldest, [ASKED_AGES], spans(70.0, 50.0)) == 50.0


def test_without_the_age_of_one_queue_the_oldest_is_not_known():
    oldest = oldest_of(reading((2, 5), (0, 4)))
    assert oldest_at(oldest, [ASKED_AGES], spans(70.0, None)) is None
    assert oldest_at(oldest, [ASKED_AGES], {}) is None
