"""Dead letters are counted, and the oldest is as old as the oldest of all queues."""

from dataclasses import replace

import pytest

from orderly.monitoring.backlog.reading import NOT_READ, BrokerReading, DeadLetters, GroupReading
from orderly.monitoring.collecting.ages import Asked, Spans
from orderly.monitoring.collecting.dead import (
    DeadAges,
    dead_letters,
    dead_topic,
    oldest_at,
    oldest_of,
    questions_of,
)
from orderly.protocol.backlog_bodies import TimeSpan
from tests.support.scans import queue, scan_of

DEAD = "%DLQ%g"
ASKED = Asked("g", DEAD, "broker-a")


def reading(*spans):
    return dead_topic(scan_of({}, **{DEAD: spans}), "g")


def spans(*moments):
    told = {queue(n, DEAD): TimeSpan(at, None, None) for n, at in enumerate(moments)}
    return {ASKED: Spans(told, 0.0)}


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
    assert questions_of("g", oldest) == [ASKED]
    assert oldest_at(oldest, [ASKED], spans(70.0, 50.0)) == 50.0


def test_without_the_age_of_one_queue_the_oldest_is_not_known():
    oldest = oldest_of(reading((2, 5), (0, 4)))
    assert oldest_at(oldest, [ASKED], spans(70.0, None)) is None
    assert oldest_at(oldest, [ASKED], {}) is None
