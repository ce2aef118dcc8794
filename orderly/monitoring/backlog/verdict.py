"""Backlog per queue, its totals and the verdict. Pure: values in, values out.

The one rule everything here obeys: what was not measured is None, never 0. A queue whose group
never committed, or whose broker did not answer, has no backlog that could be added or compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict


class QueueState(StrEnum):
    """What a queue's three offsets say together."""

    OK = "OK"
    NEW = "NEW"  # never committed: where the group will start is its own setting
    LOST = "LOST"  # committed below the minimum: the broker deleted messages nobody consumed
    AHEAD = "AHEAD"  # committed above the maximum: the topic was re-created or the log truncated
    UNKNOWN = "UNKNOWN"  # an offset could not be read


@dataclass(frozen=True, slots=True)
class QueueBacklog:
    """One queue as one group sees it.

    Offsets are positions of the next message: `committed` the next to consume, `maximum` the
    next to be stored, `minimum` the oldest still stored. None: not known.
    `readable` is False if the broker could not be asked (then None is not "never committed").
    """

    group: str
    queue: MessageQueue
    minimum: int | None
    committed: int | None
    maximum: int | None
    readable: bool = True

    @property
    def state(self) -> QueueState:
        """What the offsets say; the first that applies."""
        if not self.readable or self.minimum is None or self.maximum is None:
            return QueueState.UNKNOWN
        if self.committed is None:
            return QueueState.NEW
        if self.committed > self.maximum:
            return QueueState.AHEAD
        return QueueState.LOST if self.committed < self.minimum else QueueState.OK

    @property
    def backlog(self) -> int | None:
        """Messages stored and not yet consumed; None unless the offsets tell."""
        if self.state not in (QueueState.OK, QueueState.LOST):
            return None
        assert self.minimum is not None
        assert self.committed is not None
        assert self.maximum is not None
        return self.maximum - max(self.committed, self.minimum)

    @property
    def lost(self) -> int:
        """Messages deleted by the broker before the group consumed them."""
        if self.state is not QueueState.LOST:
            return 0
        assert self.minimum is not None
        assert self.committed is not None
        return self.minimum - self.committed


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over queues.

    Attributes:
        queues: how many there are; `unknown` of them have no backlog that could be measured.
        backlog: messages in the measured queues; None if not one was measured. With unknown
            queues it is a lower bound.
        lost: messages deleted before they were consumed.
        worst: the measured queue with the largest backlog.
    """

    queues: int
    unknown: int
    backlog: int | None
    lost: int
    worst: QueueBacklog | None


def totals(rows: Sequence[QueueBacklog]) -> Totals:
    """Add up `rows`; unknown queues are counted and not added."""
    measured = [(row.backlog, row) for row in rows if row.backlog is not None]
    return Totals(
        queues=len(rows),
        unknown=len(rows) - len(measured),
        backlog=sum(backlog for backlog, _ in measured) if measured else None,
        lost=sum(row.lost for row in rows),
        worst=max(measured, key=lambda pair: pair[0])[1] if measured else None,
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Messages of total backlog above which the verdict is WARNING or CRITICAL; None: never.

    Raises:
        ConfigError: a negative number, or warn above crit.
    """

    warn: int | None = None
    crit: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("warn", self.warn), ("crit", self.crit)):
            if value is not None and value < 0:
                raise ConfigError(f"--{name} must be 0 messages or more, not {value}")
        if self.warn is not None and self.crit is not None and self.warn > self.crit:
            raise ConfigError(
                f"--warn {self.warn} is above --crit {self.crit}: WARNING could never be reached"
            )


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, the reasons for it (worst first; empty if OK), and the sums it rests on."""

    verdict: Verdict
    reasons: tuple[str, ...]
    totals: Totals


def judge(rows: Sequence[QueueBacklog], thresholds: Thresholds) -> Judgement:
    """Judge `rows` against `thresholds`.

    What was really seen to be critical wins over what could not be measured, and that wins over
    a warning: unknown queues can only add to the backlog.
    """
    sums = totals(rows)
    findings = sorted(_findings(rows, sums, thresholds), key=lambda found: _RANK[found[0]])
    verdict = findings[0][0] if findings else Verdict.OK
    return Judgement(verdict, tuple(text for _, text in findings), sums)


_RANK = {Verdict.CRITICAL: 0, Verdict.UNKNOWN: 1, Verdict.WARNING: 2}


def _findings(
    rows: Sequence[QueueBacklog], sums: Totals, thresholds: Thresholds
) -> Iterable[tuple[Verdict, str]]:
    if not rows:
        yield Verdict.UNKNOWN, "no queue found"
    yield from _over_threshold(sums, thresholds)
    if sums.lost:
        count = _count(rows, QueueState.LOST)
        yield (
            Verdict.CRITICAL,
            f"LOST {sums.lost} messages deleted before they were consumed in {queues_text(count)}",
        )
    for state, text in _UNMEASURED.items():
        if count := _count(rows, state):
            yield Verdict.UNKNOWN, f"{state} {queues_text(count)} {text}"


_UNMEASURED = {
    QueueState.UNKNOWN: "could not be read",
    QueueState.AHEAD: "committed above the maximum (topic re-created, or the log was truncated?)",
    QueueState.NEW: "never committed",
}


def _over_threshold(sums: Totals, thresholds: Thresholds) -> Iterable[tuple[Verdict, str]]:
    if sums.backlog is None:
        return
    if thresholds.crit is not None and sums.backlog > thresholds.crit:
        yield Verdict.CRITICAL, f"backlog {sums.backlog} messages > {thresholds.crit}"
    elif thresholds.warn is not None and sums.backlog > thresholds.warn:
        yield Verdict.WARNING, f"backlog {sums.backlog} messages > {thresholds.warn}"


def _count(rows: Sequence[QueueBacklog], state: QueueState) -> int:
    return sum(row.state is state for row in rows)


def queues_text(count: int) -> str:
    """1 queue, 2 queues."""
    return "1 queue" if count == 1 else f"{count} queues"
