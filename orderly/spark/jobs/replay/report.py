"""What came of a replay, or would: the result and its report. Pure but for drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import Column, ColumnKind, counted
from orderly.report.charts import Bar, Stick, bars, columns
from orderly.report.contents import Fact, Plot, Report, Section, Table
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.replay.guard import Objection
from orderly.spark.jobs.replay.selection import Extent


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key of the selection; the most frequent have one.

    Attributes:
        key: None: messages without one.
        queue: where it lies; of several the first.
    """

    key: str | None
    messages: int
    queues: int
    queue: str
    first_offset: int
    last_offset: int
    first_stored: float
    last_stored: float


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What came of it.

    Attributes:
        target: the topic.
        extent: what was selected.
        objections: why it should not be sent into this topic.
        keys: the most frequent.
        queues: broker, queue id and messages of each queue that they come from.
        skipped: messages without a key that are left out.
        before: of the selected messages, found in the target when this call began: sent by one
            that broke off.
        sent: by this call; None: a dry run.
        repeated: copies beyond the first of each, found in the target at the end.
        missing: sent and not found there.
        document: as in result.json.
    """

    target: str
    extent: Extent
    objections: tuple[Objection, ...]
    keys: tuple[KeyRow, ...]
    queues: tuple[tuple[str, int, int], ...]
    skipped: int = 0
    before: int = 0
    sent: int | None = None
    repeated: int = 0
    missing: int = 0
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def due(self) -> int:
        """Messages that are to be in the target when all is done."""
        return self.extent.messages - self.skipped

    @property
    def verdict(self) -> Verdict:
        """CRITICAL if something is missing; WARNING if something speaks against sending."""
        if self.missing:
            return Verdict.CRITICAL
        return Verdict.WARNING if self.sent is None and self.objections else Verdict.OK

    @property
    def headline(self) -> str:
        """All of it in a few sentences."""
        return " ".join(self._said())

    def _said(self) -> Iterator[str]:
        messages = counted(self.due, "message", f"{self.due:,}")
        keys = counted(self.extent.keys, "key", f"{self.extent.keys:,}")
        if self.sent is None:
            yield f"Dry run: {messages} of {keys} would go to {self.target}; nothing was sent."
        else:
            there = f"{self.due - self.missing:,} of {messages}"
            yield f"{there}, of {keys}, are in {self.target}; {self.sent:,} were sent now."
        if self.missing:
            yield f"{self.missing:,} are missing there: run the same command again to send them."
        if self.extent.moved:
            moved = counted(self.extent.moved, "key", f"{self.extent.moved:,}")
            yield f"{moved} in several queues: merged by store time, then by queue and offset."
        if self.skipped:
            yield f"{counted(self.skipped, 'message', f'{self.skipped:,}')} without a key left out."
        if self.repeated:
            yield f"{self.repeated:,} copies are stored twice, with the same ORDERLY_ID."
        if self.objections:
            against = str(self.objections[0])
            yield f"Order is broken for consumers: {against}." if self.sent else f"But {against}."

    def figures(self) -> dict[str, Any]:
        """For result.json."""
        return {
            "target": self.target,
            "messages": self.extent.messages,
            "keys": self.extent.keys,
            "moved": self.extent.moved,
            "keyless": self.extent.keyless,
            "skipped": self.skipped,
            "before": self.before,
            "sent": self.sent,
            "repeated": self.repeated,
            "missing": self.missing,
            "objections": list(map(str, self.objections)),
        }


# --- the report -----------------------------------------------------------------------------------


_BARS, _QUEUES, _OBJECTIONS = 15, 64, 20  # shown of each


def report(made_from: Origin, result: ReplayResult) -> Report:
    """What was sent, or would be."""
    return Report(
        title=f"Replay into {result.target}",
        verdict=result.verdict,
        headline=result.headline,
        at=made_from.at,
        made_by=made_from.made_by,
        facts=tuple(_facts(result)),
        sections=(*_against(result), _keys(result), _queues(result), made_from.section()),
    )


def _facts(result: ReplayResult) -> Iterator[Fact]:
    is_dry = result.sent is None
    yield Fact("would be sent" if is_dry else "in the topic", f"{result.due:,}", "messages")
    yield Fact("keys", f"{result.extent.keys:,}", f"{result.extent.moved:,} in several queues")
    if result.sent is not None:
        yield Fact("sent now", f"{result.sent:,}", f"{result.before:,} by an earlier call")
        yield Fact("stored twice", f"{result.repeated:,}", "copies with the same id")
        yield Fact("missing", f"{result.missing:,}", "messages")
    if result.extent.keyless:
        yield Fact("without a key", f"{result.extent.keyless:,}", f"{result.skipped:,} left out")


def _against(result: ReplayResult) -> Iterator[Section]:
    if not result.objections:
        return
    shown = result.objections[:_OBJECTIONS]
    table = Table(
        [Column("group"), Column("queue"), Column("known")],
        [(it.group, str(it.queue), "yes" if it.known else "not in the table") for it in shown],
        len(result.objections) - len(shown),
        of="objection",
    )
    yield Section(
        "Objections",
        "The copies come after everything that is stored now. These groups have already consumed"
        " messages that were sent after the originals. known: the table has such a message of a"
        " selected key.",
        tables=[table],
    )


def _keys(result: ReplayResult) -> Section:
    shown = [Bar(it.key or "no key", it.messages, f"{it.messages:,}") for it in result.keys[:_BARS]]
    plots = (Plot("Messages of the most frequent keys", bars("keys", shown)),) if shown else ()
    table = Table(
        [
            Column("key", ColumnKind.KEY),
            Column("messages", ColumnKind.COUNT),
            Column("queues", ColumnKind.COUNT),
            Column("queue"),
            Column("first offset", ColumnKind.COUNT),
            Column("last offset", ColumnKind.COUNT),
            Column("stored from", ColumnKind.TIME),
            Column("to", ColumnKind.TIME),
        ],
        [
            (
                it.key,
                it.messages,
                it.queues,
                it.queue if it.queues == 1 else f"{it.queue}, …",
                it.first_offset if it.queues == 1 else None,
                it.last_offset if it.queues == 1 else None,
                it.first_stored,
                it.last_stored,
            )
            for it in result.keys
        ],
        max(0, result.extent.keys - len(result.keys)),
        of="key",
    )
    text = (
        "Each key's messages are sent in the order of their queue. A key from several queues is"
        " merged by store time, then by broker, queue and offset; its order is known no better."
    )
    return Section("Keys", text, plots, [table])


def _queues(result: ReplayResult) -> Section:
    sticks = [Stick(str(queue_id), messages) for _, queue_id, messages in result.queues[:_QUEUES]]
    plots = (Plot("Messages by the queue they were in", columns("from", sticks, "queue")),)
    return Section("Queues they come from", plots=plots if sticks else ())
