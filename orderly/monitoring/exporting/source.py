"""What is exported, and how fresh it is: the last snapshot of a monitor, and totals over all."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.backlog_json import Detail
from orderly.monitoring.exporting.metrics import ITSELF
from orderly.monitoring.exporting.render import Metrics, metrics_of
from orderly.monitoring.exporting.text import Blocks
from orderly.monitoring.exporting.told import Itself, Lost

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
    lost: Lost
    requests: Mapping[int, int]


class Totals:
    """Adds up over snapshots; give `take` to the monitor, which calls it with each. Thread-safe.

    Attributes:
        newest: what is known; None before the first snapshot.
    """

    def __init__(self) -> None:
        self.newest: Newest | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Count a new snapshot. Only ever called by one thread at a time, the monitor's."""
        lost, requests = Lost(), Counter(snapshot.requests)
        if self.newest is not None:
            lost = self.newest.lost
            requests.update(self.newest.requests)
        self.newest = Newest(snapshot, lost.after(snapshot), dict(sorted(requests.items())))


class Exported:
    """What scrapes and pages are served from. Thread-safe.

    Args:
        watched: the monitor.
        totals: what it tells its snapshots.
        detail: how far the metrics go down.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        watched: Watched,
        totals: Totals,
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

    def itself(self, series: int | None) -> Itself:
        """The exporter's own figures, when it serves so many series."""
        newest, status = self._totals.newest, self.watched.status()
        return Itself(
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
        return f"what is known is {age:.0f} s old{because}"

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
    """That no broker answered, if so: then the scan was in time, and knows nothing new."""
    errors = [broker.error for broker in snapshot.brokers.values() if broker.error is not None]
    if not errors or len(errors) < len(snapshot.brokers):
        return None
    return f"no broker answered the last scan: {errors[0]}"
