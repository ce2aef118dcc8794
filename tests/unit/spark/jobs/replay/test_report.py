"""What is thought of a replay: missing messages are an alarm, a dry run's objections a finding."""

from __future__ import annotations

from dataclasses import replace

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.report.page import html
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.replay.guard import Objection
from orderly.spark.jobs.replay.report import KeyRow, ReplayResult, report
from orderly.spark.jobs.replay.selection import Extent

OBJECTION = Objection("shipping", MessageQueue("orders", "broker-a", 0), known=True)
KEY = KeyRow("<k>", 10, 2, "orders/broker-a/0", 0, 9, 1.0, 2.0)
DRY = ReplayResult("orders", Extent(10, 2, 3, 1, 1.0, 2.0), (), (KEY,), (("broker-a", 0, 10),), 2)


def test_a_dry_run_says_what_would_be_sent():
    assert (DRY.due, DRY.verdict) == (8, Verdict.OK)
    assert DRY.headline.startswith("Dry run: 8 messages of 3 keys would go to orders")
    assert "1 key in several queues" in DRY.headline
    assert replace(DRY, objections=(OBJECTION,)).verdict is Verdict.WARNING


def test_what_is_missing_is_an_alarm():
    sent = replace(DRY, sent=5, before=3, objections=(OBJECTION,))
    assert sent.verdict is Verdict.OK, "it was said to be sent all the same"
    assert "8 of 8 messages" in sent.headline
    assert replace(sent, missing=1).verdict is Verdict.CRITICAL


def test_the_report_is_a_page_and_escapes_what_comes_from_elsewhere():
    page = html(report(Origin("replay", 0.0), replace(DRY, objections=(OBJECTION,))))
    assert page.count("<svg") >= 2
    assert "&lt;k&gt;" in page
    assert "<k>" not in page
