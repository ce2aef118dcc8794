"""Prometheus' text format and OpenMetrics: names, labels and numbers as both write them. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/ and
https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TypeVar

from orderly.monitoring.exporting.metrics import Kind, Labelled, Level, Metric, Number

Subject = TypeVar("Subject")

CONTENT_TYPE = {
    False: "text/plain; version=0.0.4; charset=utf-8",
    True: "application/openmetrics-text; version=1.0.0; charset=utf-8",
}
LONGEST_LABEL = 255  # characters; group names have as many at most, client ids any number
_DIGEST = 8  # hex digits that keep names apart which are equal up to there


class Blocks:
    """Metrics as text, one block for each, in the order in which they are added.

    Args:
        openmetrics: in that format; else in Prometheus' own.

    Attributes:
        series: how many were written.
    """

    def __init__(self, *, openmetrics: bool = False) -> None:
        self.series = 0
        self._openmetrics = openmetrics
        self._blocks: list[str] = []

    def add(self, level: Level[Subject], labels: Sequence[str], subjects: Sequence[Subject]) -> int:
        """Write all metrics of a level, and return of how many series.

        Args:
            level: its table.
            labels: of each subject, as `label` makes them, separated by commas; "" for none.
            subjects: what is read.
        """
        gauges = {metric.name for metric in level if metric.kind is Kind.GAUGE}
        before = self.series
        places = [f"{{{own}}}" if own else "" for own in labels]
        for metric in level:
            lines = list(_lines(metric, places, subjects))
            if lines:
                self._blocks += (self._header(metric, gauges), *lines)
                self.series += len(lines)
        return self.series - before

    def text(self) -> str:
        """All blocks; OpenMetrics without its end, as others may follow."""
        return "".join(self._blocks)

    def _header(self, metric: Metric[Subject] | Labelled[Subject], gauges: set[str]) -> str:
        family, kind = metric.name, str(metric.kind)
        if not self._openmetrics:
            kind = "gauge" if metric.kind is Kind.INFO else kind
        elif metric.kind is not Kind.GAUGE:
            family = family.removesuffix("_total").removesuffix("_info")
            if family in gauges:  # no two families of one name: the counter is of unknown type
                family, kind = metric.name, "unknown"
        return f"# HELP {family} {metric.help}\n# TYPE {family} {kind}\n"


def label(name: str, value: str) -> str:
    r"""One label, safe whatever the value is: bounded, and quotes, `\` and controls escaped."""
    return f'{name}="{_escaped(value)}"'


def _escaped(value: str) -> str:
    if not value.isprintable():  # line breaks, controls, bidi overrides, lone surrogates
        value = "".join(map(_shown, value))
    if len(value) > LONGEST_LABEL:
        digest = sha256(value.encode()).hexdigest()[:_DIGEST]
        value = f"{value[: LONGEST_LABEL - _DIGEST - 1]}~{digest}"
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def _lines(
    metric: Metric[Subject] | Labelled[Subject], places: Iterable[str], subjects: Iterable[Subject]
) -> Iterator[str]:
    """The series of a metric; a place is all labels of a subject, in braces."""
    name = metric.name
    if isinstance(metric, Labelled):
        for place, subject in zip(places, subjects, strict=True):
            begun = f"{name}{place[:-1]}," if place else f"{name}{{"
            for value, number in metric.read(subject):
                yield f"{begun}{label(metric.label, value)}}} {_number(number)}\n"
    else:
        for place, reading in zip(places, map(metric.read, subjects), strict=True):
            if reading is not None:
                yield f"{name}{place} {_number(reading)}\n"


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    return "+Inf" if value == float("inf") else f"{value:.13g}"
