from orderly.spark.jobs.backlog.report import report
from orderly.spark.reporting.page import report_html
from tests.support.job_reports import origin
from tests.unit.spark.jobs.backlog.test_findings import HOUR, found, group

EVIL = "<b>&ship"
NAMES = ("mean", "median", "p95", "oldest", "last", "in_rate", "out_rate", "drain_rate", "growth")


def of(name, queue=None, **fields):
    """Figures of a group, or of one of its queues."""
    place = {"topic": "orders", "broker": "a", "queue_id": queue} if queue is not None else {}
    return group(name, **place, **dict.fromkeys(NAMES, 5.0), stuck_seconds=0.0) | fields


def html(*groups, **fields):
    return report_html(report(found(*groups, **fields), origin(read=())))


def test_what_was_not_measured_is_told_and_is_not_0():
    unknown = dict.fromkeys((*NAMES, "most", "most_at"))
    text = html(of("shipping", measured=0, measured_seconds=0.0, **unknown))
    assert "UNKNOWN" in text
    assert "nothing was measured" in text
    assert "No queue was ever behind." in text


def test_names_from_elsewhere_are_escaped_in_tables_and_plots():
    where = {"level": "queue", "group": EVIL, "topic": "orders", "broker": "a", "queue_id": 1}
    period = where | {"begin": 60.0, "end": 120.0, "ended": "over"}
    incident = period | {"measure": "backlog", "limit": 100.0, "worst": 500.0, "worst_at": 60.0}
    text = html(
        of(EVIL, incidents=1, breached_seconds=60.0),
        queues=(of(EVIL, 1, incidents=1),),
        incidents=(incident,),
        stuck=(period | {"backlog": 5, "came": 3},),
        gaps=(period,),
        season=({"group": EVIL, "weekday": 1, "hour": 5, "mean": 2.0},),
        curve=({"group": EVIL, "at": 60.0, "backlog": 5, "head_age": None},),
    )
    assert EVIL not in text
    assert "&lt;b&gt;&amp;ship" in text
    assert "Promises broken" in text


def test_a_line_stops_where_nothing_was_measured():
    points = [{"group": "g", "at": at, "backlog": 5, "head_age": 1.0} for at in (0.0, 60.0, 3600.0)]
    whole = [{**points[0], "at": 60.0 * n} for n in range(61)]
    shapes = [html(of("g"), limits={}, curve=curve).count("M ") for curve in (points, whole)]
    assert shapes[0] > shapes[1]  # a path begins anew after a gap


def test_promises_kept_are_said():
    assert "Kept wherever it was measured" in html(of("g"))
    assert "Every group was measured all the time" in html(of("g"), end=HOUR)
