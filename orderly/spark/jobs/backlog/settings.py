"""What the job is asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orderly.errors import ConfigError
from orderly.monitoring.texts import iso_time


@dataclass(frozen=True, slots=True)
class BacklogSettings:
    """Of the backlog job.

    Attributes:
        directory: of the history; where Spark's workers are other machines, on a file system that
            they share.
        groups, topics: only these, as globs; (): all.
        since, until: only snapshots of [since, until), seconds since the epoch; None: no bound.
        slo_messages: more messages than this behind is a breach, of a group or of one queue;
            None: no such promise.
        slo_age: the same of the seconds for which the oldest message waits.
        join: breaches at most so many seconds apart are one incident.
        stuck_after: seconds with a backlog and without a commit from which on a queue was stuck.

    Raises:
        ConfigError: a number below 0, or a time that ends before it begins.
    """

    directory: Path
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    slo_messages: int | None = None
    slo_age: float | None = None
    join: float = 60.0
    stuck_after: float = 120.0

    def __post_init__(self) -> None:
        for name in ("slo_messages", "slo_age", "join", "stuck_after"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ConfigError("the history asked for ends before it begins: swap from and to")

    @property
    def limits(self) -> dict[str, float]:
        """The promises made, by the column that they are about."""
        limits = {"backlog": self.slo_messages, "head_age": self.slo_age}
        return {name: limit for name, limit in limits.items() if limit is not None}

    def options(self) -> dict[str, Any]:
        """What was asked, for the result; times as the command takes them."""
        said = {name: value for name, value in asdict(self).items() if value not in (None, ())}
        times = {name: iso_time(said[name]) for name in ("since", "until") if name in said}
        return said | times | {"directory": str(self.directory)}
