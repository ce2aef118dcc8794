"""What is exported: the last snapshot while it is fresh, and totals over all of them."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog_json import Detail
from tests.support.exporting import Exporting
from tests.support.snapshots import AT, row, snapshot


def read(exporting, openmetrics=False):
    """{name: value} of series without labels but a code, and all names."""
    text = exporting.exported.metrics(openmetrics=openmetrics)
    if openmetrics:
        assert text.endswith("# EOF\n")
        return text
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name, sample.labels.get("code", "")] = sample.value
    return found


def test_the_exporter_tells_of_itself():
    exporting = Exporting(
        snapshot(row(), requests={43: 1, 202: 7}, scan_seconds=0.5),
        snapshot(row(), requests={43: 1, 303: 2}, scan_seconds=0.25),
    )
    exporting.monitor.failures, exporting.monitor.last_success = 3, AT + 1
    exporting.clock.now = AT + 12
    found = read(exporting)
    own = {key: number for key, number in found.items() if "_scan_" in key[0]}
    assert own == {
        ("orderly_broker_scan_seconds", ""): 0.1,
        ("orderly_scan_duration_seconds", ""): 0.25,
        ("orderly_scan_requests_total", "43"): 2,
        ("orderly_scan_requests_total", "202"): 7,
        ("orderly_scan_requests_total", "303"): 2,
        ("orderly_scan_failures_total", ""): 3,
        ("orderly_scan_last_success_timestamp_seconds", ""): AT + 1,
        ("orderly_scan_age_seconds", ""): 12,
    }
    others = exporting.exported.metrics().partition("# HELP orderly_scan_duration")[0]
    series = [line for line in others.splitlines() if not line.startswith("#")]
    assert found["orderly_series", ""] == len(series) > 10
    assert read(exporting, openmetrics=True)


def test_before_the_first_scan_only_the_exporter_itself_is_told():
    exporting = Exporting()
    exporting.monitor.failures, exporting.monitor.last_error = 2, "no name server answered"
    assert read(exporting) == {
        ("orderly_scan_failures_total", ""): 2,
        ("orderly_series", ""): 0,
    }
    assert exporting.exported.snapshot is None
    assert exporting.exported.why_stale() == (
        "no scan is complete yet; the last scan failed: no name server answered"
    )


@pytest.mark.parametrize(("interval", "fresh_for"), [(15.0, 60), (2.0, 60), (60.0, 180)])
def test_what_is_old_is_not_told_as_if_it_were_of_now(interval, fresh_for):
    exporting = Exporting(snapshot(row()))
    exporting.monitor.interval = interval
    exporting.clock.now = AT + fresh_for
    assert exporting.exported.why_stale() is None
    assert ("orderly_group_backlog_messages", "") in read(exporting)
    exporting.clock.now += 1
    assert f"{fresh_for + 1} s old" in exporting.exported.why_stale()
    found = read(exporting)
    assert ("orderly_group_backlog_messages", "") not in found
    assert found["orderly_scan_age_seconds", ""] == fresh_for + 1
    assert found["orderly_series", ""] == 0
    exporting.take(snapshot(row(), at=exporting.clock.now))
    assert ("orderly_group_backlog_messages", "") in read(exporting)


def test_series_vanish_with_their_group():
    exporting = Exporting(snapshot(row(), row(group="billing")))
    assert 'group="billing"' in exporting.exported.metrics()
    exporting.take(snapshot(row()))
    assert 'group="billing"' not in exporting.exported.metrics()


def test_lost_messages_between_two_scrapes_are_counted():
    exporting = Exporting(snapshot(row()), snapshot(row(QueueState.LOST, lost=5)), snapshot(row()))
    assert read(exporting)["orderly_topic_lost_messages_total", ""] == 5


def test_scrapes_of_one_snapshot_share_its_text_by_format():
    exporting = Exporting(snapshot(row()), detail=Detail.QUEUE)
    plain, other = (exporting.exported.metrics(openmetrics=each) for each in (False, True))
    assert "# TYPE orderly_queue_owner_info gauge" in plain
    assert "# TYPE orderly_queue_owner info" in other
    assert exporting.exported.metrics() == plain
