"""What bounds a rate, from the figures alone."""

from dataclasses import replace

import pytest

from orderly.bench.figures import Consumed, Rate, Sent, Span, Where
from orderly.bench.histogram import Times
from orderly.bench.verdict import Bound, busy_machine, verdict_of

TRIP = Times(100, 0.004, 0.004, 0.005, 0.006, 0.007)
SENT = Sent(
    planned=1000,
    messages=1000,
    bytes=256_000,
    rate=Rate(1000, 900, 1000, 1100),
    latency=TRIP,
    requests=100,
    round_trip=TRIP,
    failed={},
    failed_requests={},
    sync=False,
    threads=1,
    wanted_rate=None,
    full=0.9,
    hot_share=0.001,
)
CONSUMED = Consumed(
    expected=1000,
    messages=1000,
    bytes=256_000,
    rate=Rate(1000, 900, 1000, 1100),
    first_after=0.1,
    latency=None,
    pulls=40,
    round_trip=TRIP,
    empty_pulls=8,
    failed_requests={},
    commits=8,
    commit_time=TRIP,
    keys=100,
    inversions=0,
    repeats=0,
    missing=0,
    by_key=False,
    queues=8,
    calls_at_once=20,
    busy=0.0,
    handler_ms=0.0,
)
IDLE = {Where.ENCODE: 0.2, Where.BROKER: 0.8}
BUSY = {Where.ENCODE: 0.6, Where.OTHER: 0.35, Where.BROKER: 0.05}
NEARLY = {Where.ENCODE: 0.5, Where.OTHER: 0.3, Where.BROKER: 0.2}
SLOW = {Where.OTHER: 0.1, Where.HANDLER_WAIT: 0.9}


def span(sent=None, consumed=None, cpu=0.2, where=IDLE, load=0.5):
    return Span(1.0, 0.2, cpu, 40 << 20, load, where, "done", sent, consumed)


def sent(**fields):
    return span(replace(SENT, **fields))


def handling(**fields):
    return span(None, replace(CONSUMED, handler_ms=5.0, **fields), where=SLOW)


CASES = [
    (sent(messages=0), Bound.NOTHING_DONE, "errors above"),
    (span(None, replace(CONSUMED, messages=0)), Bound.NOTHING_DONE, "errors above"),
    (sent(failed_requests={"BrokerBusy": 9}), Bound.THROTTLING, "page cache"),
    (sent(failed_requests={"RequestTimeout": 9}), Bound.FAILURES, "mend that first"),
    (sent(wanted_rate=1020), Bound.RATE, "raise --rate"),
    (sent(wanted_rate=2000), Bound.BROKER, "--queues"),
    (sent(), Bound.BROKER, "--queues"),
    (sent(full=0.1), Bound.CPU, "--linger"),
    (sent(full=0.1, wanted_rate=2000), Bound.BROKER, "--queues"),
    (sent(sync=True), Bound.BROKER, "--mode submit"),
    (sent(hot_share=0.9), Bound.BROKER, "one key"),
    (span(SENT, cpu=0.95, where=BUSY), Bound.CPU, "a second process"),
    (span(replace(SENT, sync=True, threads=4), cpu=1, where=BUSY), Bound.CPU, "submit"),
    (span(SENT, cpu=0.8, where=NEARLY), Bound.CPU, "a second process"),
    (span(None, CONSUMED), Bound.BROKER, "--queues"),
    (span(None, CONSUMED, 0.95, BUSY), Bound.CPU, "a second process"),
    (span(None, CONSUMED, 0.95, {Where.HANDLER: 0.9}), Bound.CPU, "process"),
    (handling(busy=7.9), Bound.QUEUES, "--order key"),
    (handling(busy=18, by_key=True), Bound.HANDLER, "--concurrency"),
    (handling(busy=18, queues=64), Bound.HANDLER, "--concurrency"),
    (handling(busy=2, by_key=True), Bound.HANDLER, "--keys"),
]


@pytest.mark.parametrize(("figures", "bound", "advice"), CASES)
def test_what_bounds_it(figures, bound, advice):
    found = verdict_of(figures)
    assert (found.bound, advice in found.next) == (bound, True), found


def test_a_handler_that_hardly_waits_bounds_nothing():
    figures = span(None, replace(CONSUMED, handler_ms=0.1, busy=0.3), where=IDLE)
    assert verdict_of(figures).bound is Bound.BROKER


def test_the_reasons_have_the_figures():
    assert "BrokerBusy" not in verdict_of(sent()).why
    assert "a request of 10 messages was answered after 4.0 ms" in verdict_of(sent()).why
    assert "95% of a core" in verdict_of(span(SENT, cpu=0.95, where=BUSY)).why
    assert "7.9 of at most 8 calls" in verdict_of(handling(busy=7.9)).why


def test_a_crowded_machine_is_told():
    assert busy_machine(span(SENT)) == ""
    assert "3.0 threads for each core" in busy_machine(span(SENT, load=3.0))


def test_lost_is_what_did_not_come_at_all():
    assert replace(CONSUMED, messages=998, repeats=3).lost == 5
    assert replace(CONSUMED, messages=1003, repeats=3).lost == 0
    assert replace(CONSUMED, expected=None).lost == 0
