"""What came of a replay, or would. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import counted
from orderly.spark.jobs.replay.guard import Objection
from orderly.spark.jobs.replay.selection import Extent


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key of the selection; the most frequent are told.

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
            yield f"{self.missing:,} are not to be seen there: the same command sends them now."
        if self.extent.moved:
            moved = counted(self.extent.moved, "key", f"{self.extent.moved:,}")
            yield f"{moved} lay in several queues: merged by store time, then by queue and offset."
        if self.skipped:
            yield f"{counted(self.skipped, 'message', f'{self.skipped:,}')} without a key left out."
        if self.repeated:
            yield f"{self.repeated:,} copies are there a second time, with the same ORDERLY_ID."
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
