"""What a result was made from: which offsets, when, by which versions. Saved with every result.

With the pinned offsets a job can be run again over the same messages, as long as brokers keep them.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Column, ColumnKind, iso_time
from orderly.report.contents import Section, Table
from orderly.report.words import plural
from orderly.spark.offsets import QueueRange, to_object

_PARTS = {"orderly": "rocketmq-orderly", "pyspark": "pyspark", "pyarrow": "pyarrow"}


@dataclass(frozen=True, slots=True)
class Origin:
    """What a job read, and with what.

    Attributes:
        job: its name, as in `orderly spark NAME`.
        at: when this was written down, after the offsets were pinned; seconds since the epoch.
        read: the pinned ranges; () for a job that reads no topic.
        options: of the job, without secrets.
        versions: of what took part, by name.
    """

    job: str
    at: float
    read: tuple[QueueRange, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> int:
        """How many offsets were read."""
        return sum(each.messages for each in self.read)

    def document(self, verdict: Verdict, figures: Mapping[str, Any]) -> dict[str, Any]:
        """What `result.json` holds.

        Args:
            verdict: of the job.
            figures: what it found; JSON can write all of it.
        """
        return {
            "schema": schema(self.job),
            "verdict": verdict.name,
            "at": iso_time(self.at),
            "read": {
                "startingOffsets": to_object({it.queue: it.start for it in self.read}),
                "endingOffsets": to_object({it.queue: it.end for it in self.read}),
            },
            "options": dict(self.options),
            "versions": dict(self.versions),
            "figures": dict(figures),
        }

    def section(self) -> Section:
        """The last part of the report: what was read."""
        by_topic = groupby(sorted(self.read), key=lambda it: it.queue.topic)
        tables = [_topic(topic, list(ranges)) for topic, ranges in by_topic]
        options = [(name, str(value)) for name, value in self.options.items()]
        tables.append(Table((Column("Option"), Column("Value")), options))
        return Section("What was read", tables=tables)

    @property
    def made_by(self) -> str:
        """The last line of the report."""
        versions = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        return (
            f"Made by orderly spark {self.job}{f': {versions}' if versions else ''}."
            " Times are UTC. The pinned offsets are in result.json, too."
        )


def _topic(name: str, ranges: Sequence[QueueRange]) -> Table:
    heads = (
        Column("Queue"), Column("From offset", ColumnKind.COUNT),
        Column("Up to, without it", ColumnKind.COUNT), Column("Offsets", ColumnKind.COUNT),
    )  # fmt: skip
    rows = [
        (f"{it.queue.broker_name}/{it.queue.queue_id}", it.start, it.end, it.messages)
        for it in ranges
    ]
    offsets = plural(sum(it.messages for it in ranges), "offset")
    about = f"{offsets} of {plural(len(ranges), 'queue')}"
    return Table(heads, rows, name=name, about=about)


def schema(job: str) -> str:
    """The name of the format of a job's `result.json`."""
    return f"orderly.spark.{job}/v1"


def origin(
    job: str, read: Sequence[QueueRange] = (), options: Mapping[str, Any] | None = None
) -> Origin:
    """The origin of a result that is made now, by what runs here; arguments: see `Origin`."""
    versions = {name: _version(name, package) for name, package in _PARTS.items()}
    versions["python"] = platform.python_version()
    return Origin(job, time.time(), tuple(read), dict(options or {}), versions)


def _version(module: str, package: str) -> str:
    """Of a package; Spark's own distribution of pyspark, and a zip of ours, are not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return str(getattr(sys.modules.get(module), "__version__", "unknown"))
