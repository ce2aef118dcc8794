"""What metrics are read from where a status alone does not say it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import GroupStatus, Snapshot, Sums, TopicStatus


@dataclass(frozen=True, slots=True)
class GroupTold:
    """A group at a moment: `at` is the scan's, for ages."""

    status: GroupStatus
    at: float

    @property
    def dead_letters_age(self) -> float | None:
        """Seconds since the oldest dead letter was stored; None: not known, or there is none."""
        dead = self.status.dead
        if dead is None or dead.oldest_at is None:
            return None
        return max(0.0, self.at - dead.oldest_at)


@dataclass(frozen=True, slots=True)
class TopicTold:
    """A topic of a group, and how many of its messages were lost up to now."""

    status: TopicStatus
    lost_total: int

    @property
    def sums(self) -> Sums:
        """Of its queues."""
        return self.status.sums

    @property
    def skew_ratio(self) -> float | None:
        """Inflow of the busiest queue over the mean; None without inflow."""
        return None if self.status.skew is None else self.status.skew.max_over_mean


@dataclass(frozen=True, slots=True)
class Itself:
    """The exporter's own figures.

    Attributes:
        requests: by request code, over all scans.
        failures: scans that failed.
        last_success: when the last good one ended, since the epoch; None: there was none.
        scan_seconds: how long the last one took.
        age: seconds since what is served was read.
        series: how many are served; None: nobody counts.
    """

    requests: Mapping[int, int]
    failures: int
    last_success: float | None
    scan_seconds: float | None
    age: float | None
    series: int | None


@dataclass(frozen=True, slots=True)
class Lost:
    """Lost messages, added up over snapshots: a status tells only what is lost at present.

    Attributes:
        totals: by (group, topic); what is not in it lost nothing.
        last: by (group, queue), what the newest snapshot that knew it said.
    """

    totals: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last: Mapping[tuple[str, MessageQueue], int] = field(default_factory=dict)

    def after(self, snapshot: Snapshot) -> Lost:
        """Return the totals with a newer snapshot; what is gone from it is gone here."""
        totals: dict[tuple[str, str], int] = {}
        last: dict[tuple[str, MessageQueue], int] = {}
        for group in snapshot.groups.values():
            for name, topic in group.topics.items():
                if topic.sums.lost or (group.group, name) in self.totals:
                    grown = self._grown(topic, last)
                    totals[group.group, name] = self.totals.get((group.group, name), 0) + grown
        return Lost(totals, last)

    def _grown(self, topic: TopicStatus, last: dict[tuple[str, MessageQueue], int]) -> int:
        """How many more are lost than were; a queue that was not read keeps what it had."""
        grown = 0
        for row in topic.rows():
            place = topic.group, row.queue
            before = self.last.get(place, 0)
            was_read = row.minimum is not None and row.committed is not None
            last[place] = row.lost if was_read else before
            grown += max(0, last[place] - before)
        return grown
