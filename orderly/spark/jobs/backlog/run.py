"""The job: a history in, tables and a report out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import TimestampType

from orderly.errors import ConfigError
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.recording.reading import find_history
from orderly.spark.jobs.backlog.analysing import KEY, PERIODS, Rules
from orderly.spark.jobs.backlog.findings import Findings, Row
from orderly.spark.jobs.backlog.frames import curve, found, periods, samples, season, snapshots
from orderly.spark.jobs.backlog.report import report
from orderly.spark.jobs.backlog.settings import BacklogSettings
from orderly.spark.jobs.origin import Origin, origin
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import Progress, silent

_SHOWN = 20  # rows of each table of the report
_PLOTTED = 4  # groups with plots of their own
_POINTS = 300  # of a curve
_SCANS = 3.0  # intervals a point of a curve covers at least: a point without a scan is a gap


@dataclass(frozen=True, slots=True)
class BacklogResult:
    """What the job found.

    Attributes:
        findings: the figures.
        origin: what it was made from.
        groups, queues: a row of figures each.
        incidents, stuck, gaps: a row a period, of groups and of queues.
        season: by weekday and hour, of groups and of queues.
        curve: the backlog of groups over time.
    """

    findings: Findings
    origin: Origin
    groups: DataFrame
    queues: DataFrame
    incidents: DataFrame
    stuck: DataFrame
    gaps: DataFrame
    season: DataFrame
    curve: DataFrame

    @property
    def verdict(self) -> Verdict:
        """CRITICAL: a promise was broken."""
        return self.findings.verdict

    @property
    def headline(self) -> str:
        """The whole in one sentence."""
        return self.findings.headline

    @property
    def document(self) -> dict[str, Any]:
        """What `result.json` holds."""
        return self.origin.document(self.verdict, self.findings.figures())


def run(
    spark: SparkSession,
    settings: BacklogSettings,
    output: Output | None = None,
    progress: Progress = silent,
) -> BacklogResult:
    """Look through a history of backlogs. No broker is asked.

    Args:
        spark: the session.
        settings: which history, and what was promised.
        output: where tables and report go; None: nowhere.
        progress: tells of steps.

    Raises:
        ConfigError: there is no such history.
    """
    history = find_history(settings.directory, settings.since, settings.until)
    told = origin("backlog", options=settings.options())
    of = samples(snapshots(spark, history, settings))
    rules = Rules(settings.limits, settings.join, settings.stuck_after)
    series = found(of, rules).persist()
    with progress("reading the history"):
        span = _span(series)
    counted = series.withColumns({name: f.size(name) for name in PERIODS})
    tables = {
        "groups": counted.where("level = 'group'").drop("level", "topic", "broker", "queue_id"),
        "queues": counted.where("level = 'queue'").drop("level"),
        **{name: periods(series, name) for name in PERIODS},
        "season": season(of),
        "curve": curve(of, span.step),
    }
    if output is not None:  # written, too; else the worst groups' are all that is looked at
        tables |= {name: tables[name].persist() for name in ("season", "curve")}
    with progress("choosing the worst"):
        findings = _findings(settings, tables, span)
    result = BacklogResult(findings=findings, origin=told, **tables)
    if output is not None:
        with progress("writing tables"):
            for name, table in tables.items():
                output.table(name, table)
        output.finish(result.document, report(findings, told))
    return result


@dataclass(frozen=True, slots=True)
class _Span:
    """Of the history: times, how many queues and standstills of queues, and a curve's step."""

    begin: float
    end: float
    queues: int
    stuck: int
    step: float


def _span(series: DataFrame) -> _Span:
    is_queue = f.col("level") == "queue"
    [row] = _rows(
        series.agg(
            f.min("begin").alias("begin"),
            f.max("end").alias("end"),
            f.max("interval").alias("interval"),
            f.count_if(is_queue).alias("queues"),
            f.sum(f.when(is_queue, f.size("stuck"))).alias("stuck"),
        )
    )
    if row["begin"] is None:
        raise ConfigError(
            "the history holds no snapshot of these groups and topics, or of that time"
        )
    step = max((row["end"] - row["begin"]) / _POINTS, _SCANS * row["interval"])
    return _Span(row["begin"], row["end"], row["queues"], row["stuck"], step)


def _findings(settings: BacklogSettings, tables: dict[str, DataFrame], span: _Span) -> Findings:
    groups = _rows(_worst(tables["groups"]))  # all: one process has measured them all, too
    names = [group["group"] for group in groups[:_PLOTTED]]
    longest = f.desc(f.col("end") - f.col("begin"))
    of_groups = f.col("level") == "group"
    plotted = {name: tables[name].where(f.col("group").isin(names)) for name in ("season", "curve")}
    return Findings(
        limits=settings.limits,
        begin=span.begin,
        end=span.end,
        groups=groups,
        queues=_rows(_worst(tables["queues"]), _SHOWN),
        queue_count=span.queues,
        incidents=_rows(tables["incidents"].orderBy(longest, *KEY.names, "begin"), _SHOWN),
        stuck=_rows(tables["stuck"].orderBy(longest, *KEY.names, "begin"), _SHOWN),
        stuck_count=span.stuck,
        gaps=_rows(tables["gaps"].where(of_groups).orderBy(longest, "group", "begin"), _SHOWN),
        season=_rows(plotted["season"].where(of_groups)),
        curve=_rows(plotted["curve"].orderBy("group", "at")),
        step=span.step,
    )


def _worst(figures: DataFrame) -> DataFrame:
    """Those that broke promises longest first, then those that stood still, then the largest."""
    keys = ("breached_seconds", "stuck_seconds", "most")
    names = [name for name in KEY.names if name in figures.columns]
    return figures.orderBy(*(f.desc_nulls_last(key) for key in keys), *names)


def _rows(frame: DataFrame, most: int | None = None) -> Sequence[Row]:
    """The first rows, on this machine, with times in seconds since the epoch."""
    times = {
        field.name: (f.unix_micros(f.col(field.name)) / 1e6).alias(field.name)
        for field in frame.schema
        if isinstance(field.dataType, TimestampType)
    }
    chosen = frame if most is None else frame.limit(most)
    rows = chosen.select(*(times.get(name, f.col(name)) for name in chosen.columns)).collect()
    return [row.asDict() for row in rows]
