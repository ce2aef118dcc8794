"""Messages that were to be read and are not there: what counts as lost, and how it is told.

Without a loss a range is read whole or not at all. A queue's log loses messages at its low end,
when they expire; what is missing at its high end was cut off, or the topic was made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orderly.errors import DataLost
from orderly.model import MessageQueue
from orderly.spark.offsets.ranges import QueueRange

EXPIRED = "expired at the broker before they were read"
CUT = "the queue ends before them: its log was cut, or the topic was made anew"
GONE = "the queue is no longer there, and its broker is"
_SHOWN = 5  # queues in an error's text


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """What a queue holds: its oldest message's offset, and the one its next message gets."""

    low: int
    high: int


@dataclass(frozen=True, slots=True, order=True)
class Loss:
    """Messages of one queue that can't be read any more.

    Attributes:
        queue: topic, broker name, queue id.
        start, end: their offsets; `end` is not among them.
        why: one of the texts above.
    """

    queue: MessageQueue
    start: int
    end: int
    why: str

    @property
    def messages(self) -> int:
        """How many offsets are gone."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.queue} [{self.start}, {self.end}): {self.why}"


def readable(wanted: QueueRange, span: Span | None) -> tuple[QueueRange, tuple[Loss, ...]]:
    """Split a range into what its queue still holds, and what is lost.

    Args:
        wanted: offsets that were there when they were chosen.
        span: of the queue; None: the queue is gone.

    Returns:
        The part to read (maybe empty, never outside of `wanted`), and the losses beside it.
    """
    queue, start, end = wanted.queue, wanted.start, wanted.end
    if start >= end:
        return wanted, ()
    if span is None:
        return QueueRange(queue, end, end), (Loss(queue, start, end, GONE),)
    low = min(max(start, span.low), end)
    high = max(min(end, span.high), low)
    losses = (Loss(queue, start, low, EXPIRED), Loss(queue, high, end, CUT))
    return QueueRange(queue, low, high), tuple(loss for loss in losses if loss.messages)


def data_lost(losses: Sequence[Loss]) -> DataLost:
    """The error that names what is lost, most messages first."""
    worst = sorted(losses, key=lambda loss: (-loss.messages, loss))
    shown = "; ".join(map(str, worst[:_SHOWN]))
    rest = f"; and of {len(worst) - _SHOWN} more queues" if len(worst) > _SHOWN else ""
    return DataLost(
        f"{sum(loss.messages for loss in losses)} messages that were to be read are lost: {shown}"
        f"{rest}. Begin after them (startingOffsets), or set failOnDataLoss=false to read what is"
        " left and have the rest counted in a warning"
    )
