"""What a group's parked messages and dead letters say, and how bad that is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import counted, iso_time
from orderly.spark.offsets.ranges import QueueRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Cluster:
    """Messages that failed alike.

    Attributes:
        id: the same in every run.
        cause: the failure's fingerprint, else its reason; of dead letters topic and tag.
        kind: parked or dead.
        messages: that failed.
        behind: that only wait behind one of them, for the order of their key.
        keys: different ones.
        waiting: messages that are parked now.
        first_at, last_at: seconds since the epoch; None: only messages behind are left.
        most_attempts: of one message.
        sample: what one of them said last.
        body: of that one, if it was asked for.
    """

    id: str
    cause: str
    kind: str
    messages: int
    behind: int
    keys: int
    waiting: int
    first_at: float | None
    last_at: float | None
    most_attempts: int
    sample: str
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key of a topic.

    Attributes:
        topic, key: None: not known.
        waiting: parked messages.
        dead: dead letters; `later` messages came behind one of them, `went_on` of those are
            consumed. None: not known.
    """

    topic: str | None
    key: str | None
    key_is_int: bool
    waiting: int
    dead: int
    later: int | None
    went_on: int | None
    first_at: float
    last_at: float


@dataclass(frozen=True, slots=True)
class Totals:
    """Over all messages.

    Attributes:
        failed: messages that failed; `behind` of others wait for them, `waiting` of both are
            parked now.
        ways: in which they failed.
        dead: dead letters; of `unplaced` the original was not found.
        keys: of all these; messages without one count as one.
        parked_keys: keys that are parked now, by the group's own record.
        went_on_keys: keys whose later messages were consumed behind a dead letter.
        unreadable: stored messages that are foreign, damaged, or a newer release's.
    """

    failed: int = 0
    behind: int = 0
    waiting: int = 0
    ways: int = 0
    dead: int = 0
    unplaced: int = 0
    keys: int = 0
    parked_keys: int = 0
    went_on_keys: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class PoisonResult:
    """What was found.

    Attributes:
        group: the consumer group.
        totals: over all.
        clusters: most messages first.
        keys: the worst, at most 200.
        trend: failed messages by cluster, as (seconds since the epoch, count).
        piece: seconds of one point of the trend.
        script: the commands that replay what waits.
        unknown: source queues whose record could not be read, and why.
        pinned: what was read.
        tables: clusters, trend, keys, replay_list; kept in Spark's memory.
        document: as in result.json.
    """

    group: str
    totals: Totals
    clusters: tuple[Cluster, ...] = ()
    keys: tuple[KeyRow, ...] = ()
    trend: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)
    piece: int = 3600
    script: str = ""
    unknown: tuple[tuple[str, str], ...] = ()
    pinned: tuple[QueueRange, ...] = ()
    tables: Mapping[str, DataFrame] = field(default_factory=dict)
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """CRITICAL: a key's order is broken. WARNING: something waits, or was given up."""
        totals = self.totals
        if totals.went_on_keys:
            return Verdict.CRITICAL
        if totals.waiting or totals.parked_keys or totals.dead:
            return Verdict.WARNING
        return Verdict.UNKNOWN if self.unknown else Verdict.OK

    @property
    def headline(self) -> str:
        """All of it in a few sentences."""
        return " ".join(self._said())

    def _said(self) -> Iterator[str]:
        totals = self.totals
        if not (totals.failed or totals.behind):
            yield f"Group {self.group} has neither parked messages nor dead letters stored."
        else:
            ways = counted(totals.ways, "way", f"{totals.ways:,}")
            yield f"{counted(totals.failed, 'message', f'{totals.failed:,}')} failed, in {ways}."
        if totals.waiting:
            waiting = counted(totals.waiting, "message", f"{totals.waiting:,}")
            yield f"{waiting} of {counted(totals.parked_keys, 'key')} wait to be released."
        elif totals.parked_keys:
            keys = counted(totals.parked_keys, "key", f"{totals.parked_keys:,}")
            yield f"{keys} parked on record, of which no message was found."
        if totals.dead:
            yield f"{counted(totals.dead, 'dead letter', f'{totals.dead:,}')} given up."
        if totals.went_on_keys:
            keys = counted(totals.went_on_keys, "key", f"{totals.went_on_keys:,}")
            yield f"{keys} went on behind a dead letter: their order is broken."
        if totals.unplaced:
            yield f"Of {totals.unplaced:,} dead letters it is not known what their keys did since."
        if totals.unreadable:
            stored = counted(totals.unreadable, "stored message", f"{totals.unreadable:,}")
            yield f"{stored} could not be read."
        if self.unknown:
            yield f"What is parked is not known of {counted(len(self.unknown), 'queue')}."

    def figures(self) -> dict[str, Any]:
        """For result.json."""
        names = Totals.__dataclass_fields__
        return {
            "group": self.group,
            **{name: getattr(self.totals, name) for name in names},
            "clusters": [_told(cluster) for cluster in self.clusters[:100]],
            "unknown": [{"queue": queue, "why": why} for queue, why in self.unknown],
        }


def _told(cluster: Cluster) -> dict[str, Any]:
    return {
        "id": cluster.id,
        "cause": cluster.cause,
        "kind": cluster.kind,
        "messages": cluster.messages,
        "behind": cluster.behind,
        "keys": cluster.keys,
        "waiting": cluster.waiting,
        "first_at": _time(cluster.first_at),
        "last_at": _time(cluster.last_at),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else iso_time(seconds)
