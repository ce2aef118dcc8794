"""The same metrics through OpenTelemetry, for who has a collector and no Prometheus.

Names and labels are those of the table; what would be +Inf is left out. Needs the packages that
`pushing` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from orderly.errors import ConfigError
from orderly.monitoring.backlog_json import Detail, finite
from orderly.monitoring.exporting.metrics import LEVELS, Kind, Labelled, Metric
from orderly.monitoring.exporting.render import chosen
from orderly.monitoring.exporting.source import Exported, Newest
from orderly.monitoring.exporting.told import GroupTold, TopicTold

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

Attributes = dict[str, str]
Told = tuple[Attributes, Any]


@contextmanager
def pushing(exported: Exported) -> Iterator[None]:
    """Push metrics while the context lasts, and once more at its end.

    Where to, and how often, is told by OpenTelemetry's own variables (OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_METRIC_EXPORT_INTERVAL, …).

    Raises:
        ConfigError: its packages are not installed.
    """
    try:
        sdk = import_module("opentelemetry.sdk.metrics")
        readers = import_module("opentelemetry.sdk.metrics.export")
        exporters = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    except ImportError as error:
        raise ConfigError(
            "metrics by OTLP need an extra: pip install 'rocketmq-orderly[cli,otlp]'"
        ) from error
    reader = readers.PeriodicExportingMetricReader(exporters.OTLPMetricExporter())
    provider = sdk.MeterProvider([reader])
    try:
        observe(exported, provider)
        yield
    finally:
        provider.shutdown()


def observe(exported: Exported, provider: MeterProvider) -> None:
    """Have a provider's readers see all metrics, whenever they look; no broker is asked."""
    meter = provider.get_meter("orderly.monitoring")
    for name, level in LEVELS.items():
        for metric in level:
            create: Callable[..., Any] = (
                meter.create_observable_counter
                if metric.kind is Kind.COUNTER
                else meter.create_observable_gauge
            )
            callback = partial(_observations, exported, name, metric)
            create(metric.name, callbacks=[callback], description=metric.help)


def _observations(
    exported: Exported, level: str, metric: Metric[Any] | Labelled[Any], _: CallbackOptions
) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - see the module's docstring

    for attributes, subject in _told(exported, level):
        if isinstance(metric, Labelled):
            for value, number in metric.read(subject):
                yield Observation(number, {**attributes, metric.label: value})
        elif (known := finite(metric.read(subject))) is not None:  # it takes no others
            yield Observation(known, attributes)


def _told(exported: Exported, level: str) -> Iterable[Told]:
    """What a level's metrics are read from, each with its labels."""
    newest = exported.fresh()
    if level == "itself":
        yield {}, exported.itself(None)
    elif newest is not None:
        cluster = {"cluster": newest.snapshot.cluster}
        for attributes, subject in _SUBJECTS[level](newest, exported.detail):
            yield cluster | attributes, subject


def _brokers(newest: Newest, _: Detail) -> Iterable[Told]:
    for broker in newest.snapshot.brokers.values():
        yield {"broker": broker.name}, broker


def _groups(newest: Newest, _: Detail) -> Iterable[Told]:
    for group in newest.snapshot.groups.values():
        yield {"group": group.group}, GroupTold(group, newest.snapshot.at)


def _topics(newest: Newest, detail: Detail) -> Iterable[Told]:
    for topic in chosen(newest.snapshot, detail)[0]:
        lost = newest.lost.totals.get((topic.group, topic.topic), 0)
        yield {"group": topic.group, "topic": topic.topic}, TopicTold(topic, lost)


def _queues(newest: Newest, detail: Detail) -> Iterable[Told]:
    for row in chosen(newest.snapshot, detail)[1]:
        queue = row.queue
        place = {"broker": queue.broker_name, "queue": str(queue.queue_id)}
        yield {"group": row.group, "topic": queue.topic, **place}, row


_SUBJECTS: Mapping[str, Callable[[Newest, Detail], Iterable[Told]]] = {
    "broker": _brokers,
    "group": _groups,
    "topic": _topics,
    "queue": _queues,
}
