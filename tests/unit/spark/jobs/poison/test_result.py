"""What is thought of what a group set aside: a broken order is an alarm, unknown is not none."""

from dataclasses import replace

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.poison.report import report
from orderly.spark.jobs.poison.result import Cluster, KeyRow, PoisonResult, Totals
from orderly.spark.reporting.page import report_html

CLUSTER = Cluster("c", "<b>no account</b>", "parked", 2, 3, 1, 5, 1000.0, 9000.0, 1, "said <i>")
KEY = KeyRow("orders", "<k>", False, 5, 1, 4, 4, 1000.0, 9000.0)
TOTALS = Totals(failed=2, behind=3, waiting=5, ways=1, keys=1, parked_keys=1)
WAITING = PoisonResult("shipping", TOTALS, (CLUSTER,))


def test_nothing_set_aside_is_fine_and_said():
    nothing = PoisonResult("shipping", Totals())
    assert nothing.verdict is Verdict.OK
    assert "neither parked messages nor dead letters" in nothing.headline


def test_what_could_not_be_read_is_not_taken_for_nothing():
    unknown = (("orders/broker-a/0", "no answer"),)
    assert PoisonResult("shipping", Totals(), unknown=unknown).verdict is Verdict.UNKNOWN
    assert replace(WAITING, unknown=unknown).verdict is Verdict.WARNING


def test_waiting_and_dead_are_findings_and_a_broken_order_is_an_alarm():
    assert WAITING.verdict is Verdict.WARNING
    assert PoisonResult("shipping", Totals(failed=1, dead=1)).verdict is Verdict.WARNING
    broken = PoisonResult("shipping", Totals(failed=1, dead=1, went_on_keys=1))
    assert broken.verdict is Verdict.CRITICAL
    assert "1 key went on behind a dead letter" in broken.headline


def test_keys_parked_on_record_are_a_finding_though_their_messages_have_expired():
    expired = PoisonResult("shipping", Totals(parked_keys=2))
    assert expired.verdict is Verdict.WARNING
    assert "2 keys parked on record, of which no message was found." in expired.headline


def test_what_could_not_be_read_is_said():
    assert "1 stored message could not be read." in PoisonResult("g", Totals(unreadable=1)).headline


def test_the_report_tells_how_many_ways_and_keys_there_are_and_not_how_many_it_was_given():
    totals = replace(TOTALS, ways=1500, keys=4000)
    page = report_html(
        report(Origin("poison", 0.0), replace(WAITING, totals=totals, keys=(KEY,) * 200))
    )
    assert "in 1,500 ways" in page
    assert "3,900 keys more left out" in page


def test_the_report_is_a_page_escapes_and_shows_bodies_only_if_there_are_any():
    found = replace(WAITING, keys=(KEY,), trend={"c": ((0.0, 1), (3600.0, 1))})
    page = report_html(report(Origin("poison", 0.0), found))
    assert page.count("<svg") >= 2
    assert not {"<b>", "<k>", "<i>"} & {tag for tag in ("<b>", "<k>", "<i>") if tag in page}
    assert "its body" not in page
    shown = replace(found, clusters=(replace(CLUSTER, body=b"\xff{1}"),))
    assert "\\xff{1}" in report_html(report(Origin("poison", 0.0), shown))
