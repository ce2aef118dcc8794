"""The audit of a topic: pin, read summaries, judge, read the suspects again, tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.figures import Figures, headline
from orderly.spark.jobs.audit.findings import Tables
from orderly.spark.jobs.audit.judging import judge
from orderly.spark.jobs.audit.merging import merged
from orderly.spark.jobs.audit.reading import again, summaries
from orderly.spark.jobs.audit.report import report
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.audit.showing import shown, worst_keys
from orderly.spark.jobs.origin import Origin, origin
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import Progress, silent

__all__ = ["AuditResult", "AuditSettings", "run"]


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit found.

    Attributes:
        figures: counted; `figures.verdict` is the verdict.
        headline: the whole in a sentence or two.
        tables: keys, evidence, queues, losses as DataFrames, kept by Spark until the session ends.
        origin: what was read, and with what; the same offsets can be audited again.
        document: what `result.json` holds.
    """

    figures: Figures
    headline: str
    tables: Tables
    origin: Origin
    document: dict[str, Any]

    @property
    def verdict(self) -> Verdict:
        """OK: in order; WARNING: only repeats; CRITICAL: order broken; UNKNOWN: not judged."""
        return self.figures.verdict

    def worst(self, most: int) -> tuple[dict[str, Any], ...]:
        """Rows of the table of keys with something wrong, those with the most first."""
        return worst_keys(self.tables.keys, most)


def run(
    spark: SparkSession,
    settings: AuditSettings,
    output: Output | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Judge the order of every key of a topic.

    Args:
        spark: the session.
        settings: what to judge, and how.
        output: where tables, report.html and result.json go; None: nowhere.
        progress: told of the steps.

    Raises:
        OrderlyError: a bad option, no such topic, no broker.
        pyspark.errors.PySparkException: a task failed; our error's line is in its text.
    """
    with progress("pinning offsets"):
        read = pin(settings.source)
    parts = merged(summaries(spark, read, settings), by_seq=settings.by_seq)
    found = judge(parts, again(spark, settings), settings, progress)
    made_from = origin("audit", read, settings.told())
    document = made_from.document(found.figures.verdict, asdict(found.figures))
    said = headline(found.figures, settings.seq_property)
    document["headline"] = said
    if output is not None:
        with progress("writing tables"):
            for name in ("keys", "evidence", "queues", "losses"):
                output.table(name, getattr(found.tables, name))
        with progress("drawing"):
            page = report(found.figures, shown(found), settings, made_from)
        output.finish(document, page)
    return AuditResult(found.figures, said, found.tables, made_from, document)
