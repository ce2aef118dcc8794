"""What backlogs are judged by: thresholds with their options, and the evaluator's own times."""

from __future__ import annotations

from docsite.markdown import prose, table
from orderly.cli.backlog.check import SUFFIXES
from orderly.monitoring.backlog.thresholds import DEFAULT_CRIT, DEFAULT_WARN, MEASURES


def thresholds() -> str:
    """What a threshold may be set for, and which are set by default."""
    rows = [
        (
            f"`--warn{SUFFIXES[measure]}` `--crit{SUFFIXES[measure]}`",
            prose(about.help),
            about.unit,
            _default(DEFAULT_WARN.get(measure), "WARNING")
            or _default(DEFAULT_CRIT.get(measure), "CRITICAL"),
        )
        for measure, about in MEASURES.items()
    ]
    return table(("options", "of", "in", "by default"), rows)


def _default(limit: str | None, verdict: str) -> str:
    return f"{verdict} above {limit}" if limit is not None else ""
