"""A broker's clock is worked out from one message's age, never too late."""

from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.collecting.ages import Asked, Spans
from orderly.monitoring.collecting.clocks import clock_offsets
from orderly.protocol.backlog_bodies import TimeSpan
from tests.support.scans import queue

ASKED = Asked("g", "orders", "broker-a")


def head(stored_at):
    return Head(0, "k", "", stored_at, 0.0, 0, 1)


def offsets(*delays, stored=(100.0, 100.0), at=150.0):
    spans = {queue(n): TimeSpan(None, None, delay) for n, delay in enumerate(delays)}
    heads = {("g", queue(n)): head(stored[n]) for n in range(len(delays))}
    return clock_offsets({ASKED: Spans(spans, at)}, heads)


def test_stored_at_plus_delay_is_the_brokers_time():
    assert offsets(57.0) == {"broker-a": 7.0}
    assert offsets(43.0) == {"broker-a": -7.0}


def test_a_queue_that_moved_on_meanwhile_does_not_pull_the_clock_back():
    assert offsets(57.0, 3.0) == {"broker-a": 7.0}


def test_without_a_delay_or_a_head_nothing_is_known():
    assert offsets(None, 0.0) == {}
    assert clock_offsets({ASKED: Spans({queue(): TimeSpan(None, None, 5.0)}, 1.0)}, {}) == {}
