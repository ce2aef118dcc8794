"""What a monitor knows, for others: metrics, JSON over HTTP and a page. Never asks a broker."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol

from orderly.errors import ConfigError
from orderly.extras import install
from orderly.monitoring.backlog.snapshot import GroupStatus, Snapshot
from orderly.monitoring.backlog.states import VERDICTS, Verdict
from orderly.monitoring.backlog_json import Detail, document, finite
from orderly.monitoring.metrics import (
    CONTENT_TYPE,
    ITSELF,
    LEVELS,
    Blocks,
    ExporterFigures,
    GroupSubject,
    Labelled,
    LostTotals,
    Metric,
    MetricKind,
    Metrics,
    TopicSubject,
    chosen,
    metrics_of,
)
from orderly.small_http import HttpRequest, HttpResponse

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation


STALE_AFTER = 60.0  # seconds; or three intervals, if that is more

Point = tuple[float, int | None]  # seconds since the epoch, messages (None: not known)


class Status(Protocol):
    """How a monitor's scans went."""

    @property
    def failures(self) -> int:
        """Scans that failed."""

    @property
    def last_success(self) -> float | None:
        """When the last good one ended, seconds since the epoch."""

    @property
    def last_error(self) -> str | None:
        """Why the last one failed; None: it did not."""


class Watched(Protocol):
    """What is needed of `Monitor`: nothing that asks a broker. Thread-safe."""

    @property
    def interval(self) -> float:
        """Seconds between two scans."""

    def status(self) -> Status:
        """How its scans went."""

    def history(self, group: str, topic: str | None = None) -> Sequence[Point]:
        """The backlog over time, the oldest first."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest snapshot, and what was added up until then.

    Attributes:
        snapshot: the newest.
        lost: messages.
        requests: to brokers, by code.
    """

    snapshot: Snapshot
    lost: LostTotals
    requests: Mapping[int, int]


class LostCounter:
    """Adds up over snapshots; give `take` to the monitor, which calls it with each. Thread-safe.

    Attributes:
        newest: what is known; None before the first snapshot.
    """

    def __init__(self) -> None:
        self.newest: Newest | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Count a new snapshot. Only ever called by one thread at a time, the monitor's."""
        lost, requests = LostTotals(), Counter(snapshot.requests)
        if self.newest is not None:
            lost = self.newest.lost
            requests.update(self.newest.requests)
        self.newest = Newest(snapshot, lost.after(snapshot), dict(sorted(requests.items())))


class ServedSnapshot:
    """What scrapes and pages are served from. Thread-safe.

    Args:
        watched: the monitor.
        totals: what it gives its snapshots to.
        detail: how far the metrics go down.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        watched: Watched,
        totals: LostCounter,
        detail: Detail = Detail.BAD_QUEUES,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.watched = watched
        self._totals = totals
        self.detail = detail
        self._clock = clock
        self._rendering = threading.Lock()
        self._rendered: tuple[Newest, dict[bool, Metrics]] | None = None

    @property
    def snapshot(self) -> Snapshot | None:
        """The newest."""
        newest = self._totals.newest
        return None if newest is None else newest.snapshot

    def why_stale(self) -> str | None:
        """Why what is known is not fresh, for people; None: it is."""
        newest = self._totals.newest
        why = self._why_stale(newest)
        return _silence(newest.snapshot) if why is None and newest is not None else why

    def fresh(self) -> Newest | None:
        """What is known, if it is fresh: a number of an hour ago would look like one of now."""
        newest = self._totals.newest
        return newest if self._why_stale(newest) is None else None

    def metrics(self, *, openmetrics: bool = False) -> str:
        """All metrics as text; the exporter's own alone if nothing fresh is known."""
        newest = self.fresh()
        metrics = Metrics("", 0) if newest is None else self._render(newest, openmetrics)
        own = Blocks(openmetrics=openmetrics)
        own.add(ITSELF, [""], [self.itself(metrics.series)])
        return metrics.text + own.text() + ("# EOF\n" if openmetrics else "")

    def itself(self, series: int | None) -> ExporterFigures:
        """The exporter's own figures, when it serves so many series."""
        newest, status = self._totals.newest, self.watched.status()
        return ExporterFigures(
            requests={} if newest is None else newest.requests,
            failures=status.failures,
            last_success=status.last_success,
            scan_seconds=None if newest is None else newest.snapshot.scan_seconds,
            age=None if newest is None else self._age(newest),
            series=series,
        )

    def _why_stale(self, newest: Newest | None) -> str | None:
        error = self.watched.status().last_error
        because = f"; the last scan failed: {error}" if error else ""
        if newest is None:
            return f"no scan is complete yet{because}"
        age = self._age(newest)
        if age <= max(STALE_AFTER, 3 * self.watched.interval):
            return None
        return f"the last complete scan is {age:.0f} s old{because}"

    def _render(self, newest: Newest, openmetrics: bool) -> Metrics:
        """Its metrics; several scrapes of one snapshot share them."""
        with self._rendering:
            if self._rendered is None or self._rendered[0] is not newest:
                self._rendered = newest, {}
            done = self._rendered[1]
            if openmetrics not in done:
                done[openmetrics] = metrics_of(
                    newest.snapshot, self.detail, openmetrics=openmetrics, lost=newest.lost
                )
            return done[openmetrics]

    def _age(self, newest: Newest) -> float:
        return max(0.0, self._clock() - newest.snapshot.at)


def _silence(snapshot: Snapshot) -> str | None:
    """The reason if no broker answered: such a scan is in time, but brings nothing new."""
    errors = [broker.error for broker in snapshot.brokers.values() if broker.error is not None]
    if not errors or len(errors) < len(snapshot.brokers):
        return None
    return f"no broker answered the last scan: {errors[0]}"


# --- what the exporter answers, by path -----------------------------------------------------------


HISTORY_SCHEMA = "orderly.history/v1"
MOST_QUEUES = 20_000  # in one JSON document: about 10 MB
_JSON = "application/json"
_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}


class Views:
    """Answers questions from what is exported. Thread-safe.

    Args:
        exported: what is known.
    """

    def __init__(self, exported: ServedSnapshot) -> None:
        self._exported = exported
        self._paths: Mapping[str, Callable[[HttpRequest], HttpResponse]] = {
            **dict.fromkeys(_PAGE, _asset),
            "/metrics": self._metrics,
            "/healthz": self._live,
            "/readyz": self._ready,
            "/api/v1/backlog": self._backlog,
            "/api/v1/history": self._history,
        }

    def answer(self, question: HttpRequest) -> HttpResponse:
        """Answer one request; an unknown path is not found."""
        view = self._paths.get(question.path)
        if view is None:
            return _error(
                HTTPStatus.NOT_FOUND, f"unknown path; the exporter has {', '.join(self._paths)}"
            )
        return view(question)

    def _metrics(self, question: HttpRequest) -> HttpResponse:
        openmetrics = "application/openmetrics-text" in question.accept
        return HttpResponse(
            self._exported.metrics(openmetrics=openmetrics), CONTENT_TYPE[openmetrics]
        )

    def _live(self, _: HttpRequest) -> HttpResponse:
        return _json({"live": True})

    def _ready(self, _: HttpRequest) -> HttpResponse:
        why = self._exported.why_stale()
        status = HTTPStatus.OK if why is None else HTTPStatus.SERVICE_UNAVAILABLE
        return _json({"ready": why is None, "reasons": [] if why is None else [why]}, status)

    def _backlog(self, question: HttpRequest) -> HttpResponse:
        """?detail=group|topic|bad-queues|queue and ?group=NAME."""
        snapshot = self._exported.snapshot
        if snapshot is None:
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, "no scan is complete yet")
        wanted = question.query.get("detail", Detail.BAD_QUEUES)
        if wanted not in list(Detail):
            return _error(HTTPStatus.BAD_REQUEST, f"detail must be one of {', '.join(Detail)}")
        groups = _groups(snapshot, question)
        if groups is None:
            return _error(HTTPStatus.NOT_FOUND, "there is no such group")
        detail = Detail(wanted)
        if _queues(groups, detail) > MOST_QUEUES:
            text = f"more than {MOST_QUEUES} queues: name a group, or ask for detail=topic"
            return _error(HTTPStatus.BAD_REQUEST, text)
        return _json(document(snapshot, detail, groups=groups))

    def _history(self, question: HttpRequest) -> HttpResponse:
        """?group=NAME and ?topic=NAME; without a group that of each."""
        snapshot = self._exported.snapshot
        groups = None if snapshot is None else _groups(snapshot, question)
        if groups is None:
            return _error(HTTPStatus.NOT_FOUND, "there is no such group")
        history, topic = self._exported.watched.history, question.query.get("topic")
        series = {each.group: history(each.group, topic) for each in groups}
        return _json({"schema": HISTORY_SCHEMA, "topic": topic, "groups": series})


def _groups(snapshot: Snapshot, question: HttpRequest) -> list[GroupStatus] | None:
    name = question.query.get("group")
    if name is None:
        return list(snapshot.groups.values())
    return [snapshot.groups[name]] if name in snapshot.groups else None


def _queues(groups: Iterable[GroupStatus], detail: Detail) -> int:
    """How many queues a document would name at most."""
    if detail not in (Detail.QUEUE, Detail.BAD_QUEUES):
        return 0
    return sum(
        min(
            each.sums.queues,
            (each.sums.parked_keys or 0)
            + sum(
                count
                for state, count in each.sums.states.items()
                if detail is Detail.QUEUE or VERDICTS[state] is not Verdict.OK
            ),
        )
        for each in groups
    )


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(json.dumps(value, allow_nan=False), _JSON, status)


def _error(status: HTTPStatus, text: str) -> HttpResponse:
    return _json({"error": text}, status)


def _asset(question: HttpRequest) -> HttpResponse:
    name, content_type = _PAGE[question.path]
    return HttpResponse(_file(name), content_type)


@cache
def _file(name: str) -> bytes:
    return (files("orderly.monitoring") / "page" / name).read_bytes()


# --- the same metrics through OpenTelemetry, for a collector without Prometheus -------------------
# Names and labels are those of the table; what would be +Inf is left out. Needs the packages that
# `pushing` names.


Attributes = dict[str, str]
LabelledSubject = tuple[Attributes, Any]


@contextmanager
def pushing(exported: ServedSnapshot) -> Iterator[None]:
    """Push metrics while the context lasts, and once more at its end.

    Where to, and how often, OpenTelemetry's own variables say (OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_METRIC_EXPORT_INTERVAL, …).

    Raises:
        ConfigError: its packages are not installed.
    """
    try:
        sdk = import_module("opentelemetry.sdk.metrics")
        readers = import_module("opentelemetry.sdk.metrics.export")
        exporters = import_module("opentelemetry.exporter.otlp.proto.http.metric_exporter")
    except ImportError as error:
        raise ConfigError(f"metrics by OTLP need an extra: {install('cli', 'otlp')}") from error
    reader = readers.PeriodicExportingMetricReader(exporters.OTLPMetricExporter())
    provider = sdk.MeterProvider([reader])
    try:
        observe(exported, provider)
        yield
    finally:
        provider.shutdown()


def observe(exported: ServedSnapshot, provider: MeterProvider) -> None:
    """Have a provider's readers see all metrics, whenever they look; no broker is asked."""
    meter = provider.get_meter("orderly.monitoring")
    for name, level in LEVELS.items():
        for metric in level:
            create: Callable[..., Any] = (
                meter.create_observable_counter
                if metric.kind is MetricKind.COUNTER
                else meter.create_observable_gauge
            )
            callback = partial(_observations, exported, name, metric)
            create(metric.name, callbacks=[callback], description=metric.help)


def _observations(
    exported: ServedSnapshot, level: str, metric: Metric[Any] | Labelled[Any], _: CallbackOptions
) -> Iterable[Observation]:
    from opentelemetry.metrics import Observation  # noqa: PLC0415 - see the module's docstring

    for attributes, subject in _subjects(exported, level):
        if isinstance(metric, Labelled):
            for value, number in metric.read(subject):
                yield Observation(number, {**attributes, metric.label: value})
        elif (known := finite(metric.read(subject))) is not None:  # it takes no others
            yield Observation(known, attributes)


def _subjects(exported: ServedSnapshot, level: str) -> Iterable[LabelledSubject]:
    """What a level's metrics are read from, each with its labels."""
    newest = exported.fresh()
    if level == "itself":
        yield {}, exported.itself(None)
    elif newest is not None:
        cluster = {"cluster": newest.snapshot.cluster}
        for attributes, subject in _SUBJECTS[level](newest, exported.detail):
            yield cluster | attributes, subject


def _broker_subjects(newest: Newest, _: Detail) -> Iterable[LabelledSubject]:
    for broker in newest.snapshot.brokers.values():
        yield {"broker": broker.name}, broker


def _group_subjects(newest: Newest, _: Detail) -> Iterable[LabelledSubject]:
    for group in newest.snapshot.groups.values():
        yield {"group": group.group}, GroupSubject(group, newest.snapshot.at)


def _topic_subjects(newest: Newest, detail: Detail) -> Iterable[LabelledSubject]:
    for topic in chosen(newest.snapshot, detail)[0]:
        lost = newest.lost.totals.get((topic.group, topic.topic), 0)
        yield {"group": topic.group, "topic": topic.topic}, TopicSubject(topic, lost)


def _queue_subjects(newest: Newest, detail: Detail) -> Iterable[LabelledSubject]:
    for row in chosen(newest.snapshot, detail)[1]:
        queue = row.queue
        place = {"broker": queue.broker_name, "queue": str(queue.queue_id)}
        yield {"group": row.group, "topic": queue.topic, **place}, row


_SUBJECTS: Mapping[str, Callable[[Newest, Detail], Iterable[LabelledSubject]]] = {
    "broker": _broker_subjects,
    "group": _group_subjects,
    "topic": _topic_subjects,
    "queue": _queue_subjects,
}
