"""What is exported: the last snapshot while it is fresh, and totals over all of them."""

from __future__ import annotations

import json
import sys
from http import HTTPStatus
from math import isfinite
from types import ModuleType

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from orderly.errors import ConfigError
from orderly.monitoring import exporter as module
from orderly.monitoring.backlog.reading import BrokerReading
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog_json import Detail, document
from orderly.monitoring.exporter import Views, observe, pushing
from orderly.monitoring.metrics import CONTENT_TYPE
from orderly.small_http import HttpRequest
from tests.support.snapshots import AT, Exporting, every_state, row, snapshot


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


SNAPSHOT = snapshot(
    row(), row(QueueState.STALL, queue_id=1), row(group="billing", topic="invoices")
)


@pytest.fixture
def exporting():
    return Exporting(SNAPSHOT)


@pytest.fixture
def ask(exporting):
    views = Views(exporting.exported)

    def answer(path, accept="", **query):
        return views.answer(HttpRequest(path, query, accept))

    return answer


def told(answer, status=HTTPStatus.OK):
    assert (answer.status, answer.content_type) == (status, "application/json")
    return json.loads(answer.body)


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain;version=0.0.4;q=0.3,*/*;q=0.1", False),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", True),
    ],
)
def test_metrics_are_in_the_format_that_is_asked_for(ask, accept, openmetrics):
    answer = ask("/metrics", accept)
    assert answer.content_type == CONTENT_TYPE[openmetrics]
    assert answer.body.endswith("# EOF\n") == openmetrics
    assert 'orderly_group_backlog_messages{cluster="DefaultCluster",group="shipping"} 7' in (
        answer.body
    )


def test_it_is_live_from_the_start_and_ready_with_something_fresh():
    exporting = Exporting()
    views = Views(exporting.exported)

    def ask(path, status):
        return told(views.answer(HttpRequest(path)), status)

    assert ask("/healthz", 200) == {"live": True}
    unready = ask("/readyz", 503)
    assert unready == {"ready": False, "reasons": ["no scan is complete yet"]}
    assert "error" in ask("/api/v1/backlog", 503)
    exporting.take(snapshot(row()))
    assert ask("/readyz", 200) == {"ready": True, "reasons": []}
    exporting.clock.now += 3600
    assert ask("/readyz", 503)["reasons"] == ["the last complete scan is 3600 s old"]
    assert ask("/healthz", 200) == {"live": True}


def test_it_is_not_ready_while_no_broker_answers_and_says_so_in_metrics(exporting, ask):
    silent = BrokerReading("broker-a", error="timed out")
    exporting.take(snapshot(row(QueueState.UNKNOWN), brokers={"broker-a": silent}))
    assert told(ask("/readyz"), 503)["reasons"] == ["no broker answered the last scan: timed out"]
    assert 'orderly_broker_up{cluster="DefaultCluster",broker="broker-a"} 0' in (
        exporting.exported.metrics()
    )
    brokers = {"broker-a": silent, "broker-b": BrokerReading("broker-b")}
    exporting.take(snapshot(row(), brokers=brokers))
    assert told(ask("/readyz"))["ready"]


@pytest.mark.parametrize("detail", list(Detail))
def test_the_backlog_is_the_document_of_the_command_line(ask, detail):
    assert told(ask("/api/v1/backlog", detail=detail)) == document(SNAPSHOT, detail)


def test_of_the_backlog_one_group_can_be_asked_for(ask):
    (found,) = told(ask("/api/v1/backlog", group="billing"))["groups"]
    assert found["group"] == "billing"
    for path in ("/api/v1/backlog", "/api/v1/history"):
        assert told(ask(path, group="nobody"), 404) == {"error": "there is no such group"}


def test_a_detail_that_is_none_is_refused(ask):
    assert (
        "group, topic, bad-queues, queue"
        in told(ask("/api/v1/backlog", detail="all"), 400)["error"]
    )


def test_a_document_of_too_many_queues_is_refused(ask, monkeypatch):
    monkeypatch.setattr(module, "MOST_QUEUES", 1)
    assert "name a group" in told(ask("/api/v1/backlog", detail="queue"), 400)["error"]
    told(ask("/api/v1/backlog", detail="queue", group="billing"))
    told(ask("/api/v1/backlog", detail="bad-queues"))
    told(ask("/api/v1/backlog", detail="topic"))


def test_the_history_is_told_by_group(ask, exporting):
    exporting.monitor.points = [(AT - 15, None), (AT, 7)]
    found = told(ask("/api/v1/history"))
    points = [[AT - 15, None], [AT, 7]]
    assert found == {
        "schema": "orderly.history/v1",
        "topic": None,
        "groups": {"billing": points, "shipping": points},
    }
    found = told(ask("/api/v1/history", group="billing", topic="invoices"))
    assert (found["topic"], list(found["groups"])) == ("invoices", ["billing"])


@pytest.mark.parametrize(
    ("path", "kind", "part"),
    [
        ("/", "text/html", b"<!doctype html>"),
        ("/page.js", "text/javascript", b"textContent"),
        ("/page.css", "text/css", b"prefers-color-scheme"),
    ],
)
def test_the_page_is_in_the_package(ask, path, kind, part):
    answer = ask(path)
    assert answer.content_type == f"{kind}; charset=utf-8"
    assert part in answer.body


@pytest.mark.parametrize("path", ["", "/x", "/metrics/", "/../etc/passwd", "/page.py", "*"])
def test_there_is_nothing_else(ask, path):
    assert "/metrics" in told(ask(path), 404)["error"]


def test_the_page_has_no_way_to_make_markup_of_texts(ask):
    script = ask("/page.js").body.decode()
    for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function("):
        assert way not in script


EXPORTER = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def provider(reader):
    provider = MeterProvider([reader])
    yield provider
    provider.shutdown()


def series(reader):
    """{(name, labels): value} of all that a reader sees."""
    data = reader.get_metrics_data()
    return {
        (metric.name, frozenset(point.attributes.items())): point.value
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def scraped(exported):
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exported.metrics())
        for sample in family.samples
    }


@pytest.mark.parametrize("detail", list(Detail))
def test_it_is_what_a_scrape_says(reader, provider, detail):
    exporting = Exporting(every_state(), detail=detail)
    observe(exporting.exported, provider)
    expected = scraped(exporting.exported)
    del expected["orderly_series", frozenset()]
    assert series(reader) == {at: number for at, number in expected.items() if isfinite(number)}


def test_it_follows_the_snapshots_and_forgets_what_is_gone(reader, provider):
    exporting = Exporting(snapshot(row(), row(group="billing")))
    observe(exporting.exported, provider)
    groups = {dict(labels).get("group") for _, labels in series(reader)}
    assert groups == {None, "shipping", "billing"}
    exporting.take(snapshot(row()))
    assert {dict(labels).get("group") for _, labels in series(reader)} == {None, "shipping"}
    exporting.clock.now += 3600
    names = {name for name, _ in series(reader)}
    assert names
    assert all(name.startswith("orderly_scan_") for name in names)


def test_without_its_extra_it_says_which(monkeypatch):
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    with (
        pytest.raises(ConfigError, match=r"pip install .*\[cli,otlp\]"),
        pushing(Exporting().exported),
    ):
        pass


def test_what_was_seen_last_is_pushed_at_the_end(monkeypatch):
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult  # noqa: PLC0415

    pushed = []

    class Pushing(MetricExporter):
        def export(self, metrics_data, timeout_millis=10_000, **_):
            pushed.append(metrics_data.to_json())
            return MetricExportResult.SUCCESS

        def force_flush(self, timeout_millis=10_000):
            return True

        def shutdown(self, timeout_millis=30_000, **_):
            pass

    module = ModuleType(EXPORTER)
    module.OTLPMetricExporter = Pushing
    parts = EXPORTER.split(".")
    for n in range(3, len(parts)):  # the packages in between, if nobody has installed them
        monkeypatch.setitem(sys.modules, ".".join(parts[:n]), ModuleType(".".join(parts[:n])))
    monkeypatch.setitem(sys.modules, EXPORTER, module)
    with pushing(Exporting(snapshot(row(backlog=4321))).exported):
        pass
    assert '"orderly_group_backlog_messages"' in pushed[-1]
    assert "4321" in pushed[-1]
