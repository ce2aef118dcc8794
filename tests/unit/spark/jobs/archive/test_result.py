"""What is thought of an archive run: only what is missing without a reason is a finding."""

from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.archive.ledger import Run, Stretch
from orderly.spark.jobs.archive.report import report
from orderly.spark.jobs.archive.result import ArchiveResult
from orderly.spark.jobs.origin import Origin
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reporting.page import report_html

QUEUE = MessageQueue("<orders>", "broker-a", 0)


def result(lost=0, rows=10, tags="*", gone=()):
    part = Stretch(QueueRange(QUEUE, 0, 10), lost, rows, 1.0, 2.0)
    run = Run(1, 3.0, (part,), {"1970-01-01": rows}, ("f",))
    return ArchiveResult((run,), (run,), gone, tags)


def test_a_whole_run_is_fine():
    assert result().verdict is Verdict.OK
    assert result(rows=4, tags="a").verdict is Verdict.OK, "the others were filtered"


def test_what_is_missing_is_a_finding_and_said():
    assert result(lost=2, rows=8).verdict is Verdict.WARNING
    assert "2 messages had been deleted" in result(lost=2, rows=8).headline
    assert result(rows=9).verdict is Verdict.WARNING
    assert "1 offset gave no message" in result(rows=9).headline
    assert result(gone=(QUEUE,)).verdict is Verdict.WARNING


def test_nothing_new_is_fine_and_said():
    assert ArchiveResult((), result().runs).verdict is Verdict.OK
    assert "Nothing was new" in ArchiveResult((), result().runs).headline


def test_the_report_is_a_page_and_escapes_what_comes_from_elsewhere():
    found = result(lost=2, rows=8)
    page = report_html(report(Origin("archive", 0.0, found.pinned), found))
    assert page.count("<svg") >= 2
    assert "&lt;orders&gt;" in page
    assert "<orders>" not in page
