"""The sliding window: what counts, for how long, and at what price."""

import math
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.consumer.statistics import ReturnType, Statistics

OK, BAD = ReturnType.SUCCESS, ReturnType.FAILED
T = "orders"


@pytest.fixture
def statistics():
    return Statistics()


def consume(statistics, now, messages=1, seconds=0.5, kind=OK):
    statistics.consumed(T, messages, seconds, kind, now, ok=kind is OK)


def test_a_topic_nothing_is_known_of_is_all_zeros(statistics):
    found = statistics.of(T, 100.0)
    assert (found.consume_seconds, found.consumed_per_second, found.failed_last_hour) == (0, 0, 0)
    assert found.calls == dict.fromkeys(ReturnType, 0)
    assert statistics.topics() == ()


def test_rates_are_messages_a_second_over_the_last_minute(statistics):
    for second in range(120):
        consume(statistics, 1000.0 + second, messages=3)
        consume(statistics, 1000.0 + second, kind=BAD)
        statistics.pulled(T, 32, 0.1, 1000.0 + second)
    found = statistics.of(T, 1120.0)
    assert found.consumed_per_second == pytest.approx(3)
    assert found.failed_per_second == pytest.approx(1)
    assert found.pulled_per_second == pytest.approx(32)


def test_a_young_topic_is_measured_over_its_own_age_but_no_moment(statistics):
    consume(statistics, 1000.0, messages=40)
    assert statistics.of(T, 1000.0).consumed_per_second == pytest.approx(4)
    assert statistics.of(T, 1020.0).consumed_per_second == pytest.approx(2)


def test_times_are_means_of_calls_not_of_messages(statistics):
    consume(statistics, 1000.0, messages=10, seconds=1.0)
    consume(statistics, 1001.0, messages=1, seconds=3.0)
    statistics.pulled(T, 0, 0.2, 1001.0)
    statistics.pulled(T, 32, 0.4, 1001.0)
    found = statistics.of(T, 1002.0)
    assert found.consume_seconds == pytest.approx(2.0)
    assert found.pull_seconds == pytest.approx(0.3)


def test_after_a_quiet_minute_the_time_of_a_call_is_the_hours(statistics):
    consume(statistics, 1000.0, seconds=2.0)
    statistics.pulled(T, 1, 2.0, 1000.0)
    assert statistics.of(T, 1100.0).consume_seconds == pytest.approx(2.0)
    assert statistics.of(T, 1100.0).pull_seconds == 0
    consume(statistics, 1200.0, seconds=8.0)
    assert statistics.of(T, 1201.0).consume_seconds == pytest.approx(8.0)
    assert statistics.of(T, 5000.0).consume_seconds == 0


def test_failures_are_remembered_for_an_hour(statistics):
    consume(statistics, 1000.0, messages=5, kind=BAD)
    consume(statistics, 2000.0, messages=2, kind=ReturnType.EXCEPTION)
    assert statistics.of(T, 4590.0).failed_last_hour == 7
    assert statistics.of(T, 4620.0).failed_last_hour == 2
    assert statistics.of(T, 4620.0).failed_per_second == 0


def test_calls_are_counted_by_kind_since_the_start(statistics):
    for kind in ReturnType:
        consume(statistics, 1000.0, messages=9, kind=kind)
    consume(statistics, 9000.0)
    assert statistics.of(T, 99999.0).calls == {**dict.fromkeys(ReturnType, 1), OK: 2}


def test_a_call_may_take_too_long_and_be_done_all_the_same(statistics):
    statistics.consumed(T, 4, 900.0, ReturnType.TIME_OUT, 1000.0, ok=True)
    found = statistics.of(T, 1000.0)
    assert (found.consumed_per_second, found.failed_last_hour) == (pytest.approx(0.4), 0)
    assert found.calls[ReturnType.TIME_OUT] == 1


def test_topics_are_apart_and_a_snapshot_stays_as_it_was(statistics):
    consume(statistics, 1000.0)
    before = statistics.of(T, 1000.0)
    consume(statistics, 1000.0)
    statistics.pulled("other", 1, 0.1, 1000.0)
    assert before.calls[OK] == 1
    assert statistics.topics() == ("orders", "other")
    assert statistics.of("other", 1000.0).consumed_per_second == 0


def test_events_that_come_late_are_counted_and_push_nothing_out(statistics):
    consume(statistics, 500.0, kind=BAD)
    for _ in range(500):
        consume(statistics, 1010.0)
        consume(statistics, 1009.9, kind=BAD)
    assert statistics.of(T, 1011.0).failed_last_hour == 501


def test_memory_is_bounded(statistics):
    for span in range(5000):
        consume(statistics, span * 10.0)
    assert len(statistics._topics[T].spans) <= 361


def test_threads_lose_no_count(statistics):
    def work():
        for number in range(2000):
            consume(statistics, 1000.0 + number / 100)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statistics.of(T, 1020.0).calls[OK] == 8000


events = st.lists(st.tuples(st.floats(0, 9000), st.integers(0, 32)), min_size=1, max_size=60)


@given(events, st.floats(0, 9000))
def test_the_hour_is_right_to_within_one_span(given_events, later):
    statistics = Statistics()
    given_events = sorted(given_events)
    for now, messages in given_events:
        consume(statistics, now, messages=messages, kind=BAD)
    end = given_events[-1][0] + later
    found = statistics.of(T, end).failed_last_hour
    at_least = sum(messages for now, messages in given_events if now > end - 3600)
    at_most = sum(messages for now, messages in given_events if now >= end - 3610)
    assert at_least <= found <= at_most
    assert math.isfinite(statistics.of(T, end).failed_per_second)
