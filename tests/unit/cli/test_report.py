"""The demo's verdict: good only if everything was sent, handled in order, and nothing is left."""

import json
from dataclasses import replace

import pytest

from orderly.cli.demo.consuming import ConsumeLog, Delivery
from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.report import judge_run
from orderly.cli.demo.sending import SendLog
from orderly.cli.demo.trouble import FailingMessage, TakeOver
from orderly.model import MessageQueue
from orderly.monitoring.backlog import Totals

QUEUES = [MessageQueue("t", "b", i) for i in range(2)]
EVENTS = [
    FlightEvent(n, n, "departure" if n % 4 < 2 else "arrival", f"N{n % 2}", "UA1", "EWR", "IAH")
    for n in range(8)
]
CLEAN = Totals(queues=2, unknown=0, backlog=0, lost=0, worst=None)


def delivery(number, *, succeeded=True):
    offset = number // 2
    key = EVENTS[number].tail
    return Delivery("A", QUEUES[number % 2], offset, key, number, succeeded, 0.0, 0.0)


def one_after_another(deliveries):
    return [replace(d, started=n + 1.0, ended=n + 1.5) for n, d in enumerate(deliveries)]


def run(deliveries=None, *, sent=range(8), failed=None, backlog=CLEAN, attempts=4):
    log = SendLog({n: (QUEUES[n % 2], n // 2) for n in sent}, failed or {}, seconds=2.0)
    if deliveries is None:
        deliveries = [delivery(n) for n in range(8)]
    deliveries = one_after_another(deliveries)
    consumed = ConsumeLog(deliveries, 4.0, TakeOver(1.0, frozenset(QUEUES), {QUEUES[0]: 1.5}))
    failing = FailingMessage(2, "N0's arrival", QUEUES[0], [1.0, 1.5, 2.0, 2.5][:attempts])
    return judge_run(EVENTS, log, consumed, failing, backlog=backlog, seconds=9.0)


def with_planned_failures():
    good = [delivery(n) for n in range(8)]
    return [*good[:2], *[delivery(2, succeeded=False)] * 3, *good[2:]]


def test_in_order_and_complete():
    report = run(with_planned_failures())
    assert report.exit_code == 0
    assert report.verdict_text() == (
        "In order: all 8 events of 2 aircraft were handled in the order in which they were sent;"
        " none was lost"
    )
    rows = dict(report.rows())
    assert rows["events"] == "8 (4 arrivals, 4 departures), 2 keys (aircraft)"
    assert rows["sent"] == "4/s in 2.0 s"
    assert rows["queues"] == "2 used; fullest 0 with 4, emptiest 0 with 4"
    assert rows["duplicates"].startswith("0 delivered again, 0 stored twice")
    assert "in 0.50 s" in rows["take-over"]


def test_as_json():
    found = json.loads(json.dumps(run(with_planned_failures()).as_json()))
    assert found["schema"] == "orderly.demo/v1"
    assert (found["ok"], found["exit_code"]) == (True, 0)
    assert (found["events"], found["keys"], found["delivered"]) == (8, 2, 11)
    assert (found["duplicates"], found["planned_retries"]) == (0, 3)
    assert found["take_over_seconds"] == pytest.approx(0.5)


def test_repeats_beyond_the_planned_ones_are_counted_and_allowed():
    again = [*with_planned_failures(), delivery(7)]
    report = run(again)
    assert report.redelivered == 1
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"deliveries": [delivery(n) for n in (0, 1, 4, 2, 6, 3, 5, 7)]}, "out of order"),
        ({"deliveries": [delivery(n) for n in range(7)]}, "1 lost"),
        ({"deliveries": []}, "8 lost"),
        ({"sent": range(7), "failed": {7: "disk full"},
          "deliveries": [delivery(n) for n in range(7)]}, "1 not sent"),
        ({"backlog": Totals(2, 0, 5, 0, None)}, "5 left at the broker"),
    ],
)  # fmt: skip
def test_anything_wrong_is_a_bad_verdict(change, text):
    report = run(**{"attempts": 0, **change})
    assert report.exit_code == 1
    assert text in report.verdict_text()
    assert report.verdict_text().startswith("Not in order or not complete")


def test_a_backlog_that_could_not_be_read_is_not_measured():
    report = run(backlog=Totals(2, 1, 0, 0, None), attempts=0)
    assert report.exit_code == 3
    assert report.as_json()["backlog"] is None
    assert dict(report.rows())["backlog left"] == "not known"


def test_a_bad_verdict_wins_over_one_that_is_not_known():
    report = run([], backlog=Totals(2, 1, 0, 0, None), attempts=0)
    assert report.exit_code == 1
