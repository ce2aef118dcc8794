"""The same metrics by OpenTelemetry: what a reader of the SDK sees is what a scrape says."""

import sys
from math import isfinite
from types import ModuleType

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client.parser import text_string_to_metric_families

from orderly.errors import ConfigError
from orderly.monitoring.backlog_json import Detail
from orderly.monitoring.exporting.otlp import observe, pushing
from tests.support.exporting import Exporting
from tests.support.snapshots import every_state, row, snapshot

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
        pytest.raises(ConfigError, match=r"rocketmq-orderly\[cli,otlp\]"),
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
