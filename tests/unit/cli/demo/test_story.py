"""The demo's verdict: good only if all was sent, handled in order, released, and none is left."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.story import judge_run
from orderly.cli.demo.traffic import ConsumeLog, DemoDelivery, SendLog, Stream
from orderly.cli.demo.trouble import BadRecord, FailingEvent, Parking, TakeOver
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.park_command_sender import Outcome
from tests.support.snapshots import row, sums

QUEUES = [MessageQueue("t", "b", i) for i in range(2)]
EVENTS = [
    FlightEvent(n, n, "departure" if n % 4 < 2 else "arrival", f"N{n % 2}", "UA1", "EWR", "IAH")
    for n in range(8)
]
CLEAN = sums([row(queue_id=n) for n in range(2)])
BAD = BadRecord(5, "N1", "N1's departure", "24:00")
RELEASED = (Outcome(QUEUES[1], "N1", settled=2),)


def delivery(number, *, succeeded=True, replayed=False):
    offset = number // 2
    key = EVENTS[number].tail
    queue = QUEUES[number % 2]
    return DemoDelivery("A", queue, offset, key, number, succeeded, 0.0, 0.0, replayed)


def one_after_another(deliveries):
    return [replace(d, started=n + 1.0, ended=n + 1.5) for n, d in enumerate(deliveries)]


REPLAYED = [delivery(n, replayed=True) for n in (5, 7)]


def run(deliveries, *, sent=range(8), failed=None, backlog=CLEAN, attempts=4, outcomes=RELEASED):
    log = SendLog({n: (QUEUES[n % 2], n // 2) for n in sent}, failed or {}, seconds=2.0, fast=8)
    deliveries = one_after_another(deliveries)
    take_over = TakeOver(1.0, frozenset(QUEUES), {QUEUES[0]: 1.5})
    consumed = ConsumeLog(deliveries, (11, 4.0), take_over)
    failing = FailingEvent(2, "N0", "N0's arrival", QUEUES[0], [1.0, 1.5, 2.0, 2.5][:attempts])
    parking = Parking(BAD, parked_at=10.0, released_at=13.6, outcomes=outcomes)
    stream = Stream(EVENTS, 4, BAD, failing)
    return judge_run(stream, log, consumed, parking, backlog=backlog, seconds=9.0)


def with_planned_failures():
    good = [delivery(n) for n in (0, 1, 2, 3, 4)]
    bad = [delivery(5, succeeded=False)] * 2
    return [*good[:2], *[delivery(2, succeeded=False)] * 3, *good[2:], *bad, delivery(6), *REPLAYED]


def test_in_order_and_complete():
    report = run(with_planned_failures())
    assert report.exit_code == 0
    assert report.verdict_text() == (
        "In order: all 8 events of 2 aircraft were handled in the order in which they were sent,"
        " including the 2 that were parked; none was lost"
    )
    rows = dict(report.rows())
    assert rows["events"] == "8 (4 arrivals, 4 departures), 2 keys (aircraft)"
    assert rows["sent"] == "4/s in 2.0 s"
    assert rows["queues"] == "2 used; fullest 0 with 4, emptiest 0 with 4"
    assert rows["consumed"] == "3/s in 4.0 s"
    assert rows["duplicates"].startswith("0 delivered again, 0 stored twice")
    assert rows["bad record"] == (
        "N1: 2 events set aside, for up to 3.6 s; 2 replayed; meanwhile 1 events of other aircraft"
        " were handled"
    )
    assert "in 0.50 s" in rows["take-over"]


def test_queues_with_the_same_number_on_two_brokers_are_two():
    queues = [MessageQueue("t", broker, 0) for broker in ("b", "a", "b")]
    log = SendLog(stored=dict(enumerate((queue, n) for n, queue in enumerate(queues))))
    assert log.per_queue() == {"a/0": 1, "b/0": 2}


def test_as_json():
    found = json.loads(json.dumps(run(with_planned_failures()).as_json()))
    assert found["schema"] == "orderly.demo/v1"
    assert (found["ok"], found["exit_code"]) == (True, 0)
    assert (found["events"], found["keys"], found["delivered"]) == (8, 2, 13)
    assert (found["duplicates"], found["planned_retries"]) == (0, 5)
    parked = found["parked"]
    assert (parked["key"], parked["messages"], parked["replayed"]) == ("N1", 2, 2)
    assert (parked["others_meanwhile"], parked["seconds"]) == (1, pytest.approx(3.6))
    assert found["take_over_seconds"] == pytest.approx(0.5)


def test_repeats_beyond_the_planned_ones_are_counted_and_allowed():
    again = [*with_planned_failures(), delivery(7)]
    report = run(again)
    assert report.redelivered == 1
    assert report.exit_code == 0


def all_but(*numbers):
    return [d for d in with_planned_failures() if d.number not in numbers]


def out_of_order():
    before = [d for d in with_planned_failures() if d.number not in (5, 7)]
    return [*before, *reversed(REPLAYED)]


def test_failures_made_on_purpose_are_no_redeliveries_even_if_it_is_never_handled():
    report = run([d for d in with_planned_failures() if not d.replayed], outcomes=())
    assert (report.planned, report.redelivered) == (4, 0)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deliveries": out_of_order()}, "3 out of order"),
        ({"deliveries": all_but(6)}, "1 lost"),
        ({"deliveries": []}, "8 lost"),
        ({"sent": range(7), "failed": {7: "disk full"}, "deliveries": all_but(7)}, "1 not sent"),
        ({"backlog": sums([row(backlog=5)])}, "5 left at the broker"),
        ({"outcomes": (Outcome(QUEUES[1], "N1", 1, 3, "ValueError"),)}, "stopped: ValueError"),
        ({"outcomes": (Outcome(QUEUES[1], "N1", settled=3),)}, "3 events set aside"),
        ({"outcomes": ()}, "0 events set aside"),
    ],
)
def test_anything_wrong_is_a_bad_verdict(change, text):
    report = run(**{"deliveries": with_planned_failures(), **change})
    assert report.exit_code == 1
    assert text in report.verdict_text()
    assert report.verdict_text().startswith("Not in order or not complete")


def test_a_backlog_that_could_not_be_read_is_not_measured():
    report = run(
        with_planned_failures(), backlog=sums([row(), row(QueueState.UNKNOWN, queue_id=1)])
    )
    assert report.exit_code == 3
    assert report.as_json()["backlog"] is None
    assert dict(report.rows())["backlog left"] == "not known"


def test_a_bad_verdict_wins_over_one_that_is_not_known():
    report = run([], backlog=sums([row(), row(QueueState.UNKNOWN, queue_id=1)]), attempts=0)
    assert report.exit_code == 1
