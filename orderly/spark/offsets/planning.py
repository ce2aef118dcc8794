"""From what the user wants of a queue, and what the queue holds, to the range that is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.offsets.losses import CUT, GONE, Loss, Span, readable
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.positions import Edge, Exact, Position

_SHOWN = 5  # queues in an error's text


def planned(queue: MessageQueue, start: int, end: int, span: Span) -> tuple[QueueRange, list[Loss]]:
    """The range to read of a queue, and what it should have held besides.

    Args:
        queue: which.
        start: where to begin; may lie outside of the queue if a user, or a group's commit, says so.
        end: where to end, likewise.
        span: what the queue holds.
    """
    if start > max(end, span.high):
        return QueueRange(queue, span.high, span.high), [Loss(queue, span.high, start, CUT)]
    kept, losses = readable(QueueRange(queue, min(start, end), end), span)
    return kept, list(losses)


def at_edge(edge: Edge, span: Span) -> int:
    """The offset at one end of a queue."""
    return span.low if edge is Edge.EARLIEST else span.high


def within(offset: int, span: Span) -> int:
    """An offset moved into its queue: a broker may answer a search for a time from beyond."""
    return min(max(offset, span.low), span.high)


def check_named(position: Position, queues: Collection[MessageQueue], what: str) -> None:
    """Refuse offsets for queues that are not read.

    Raises:
        ConfigError: with the queues that there are.
    """
    if not isinstance(position, Exact):
        return
    strange = sorted(set(position.offsets) - set(queues))
    if strange:
        raise ConfigError(
            f"{what} names {_listed(strange)}, which is not among the queues read:"
            f" {_listed(sorted(queues))}"
        )


def check_order(start: Position, end: Position) -> None:
    """Refuse a queue that would end before it begins.

    Raises:
        ConfigError: naming it.
    """
    if not isinstance(start, Exact) or not isinstance(end, Exact):
        return
    for queue, low in sorted(start.offsets.items()):
        high = end.offsets.get(queue, low)
        if 0 <= high < low:
            raise ConfigError(f"{queue} would begin at {low} and end at {high}; exchange them")


def vanished(
    queues: Collection[MessageQueue],
    start: Position,
    end: Position,
    there: Mapping[MessageQueue, Span],
) -> list[Loss]:
    """What is lost of queues that were assigned and are no more.

    Raises:
        ConfigError: nothing says that they ever were.
    """
    missing = sorted(queue for queue in queues if queue not in there)
    starts = start.offsets if isinstance(start, Exact) else {}
    ends = end.offsets if isinstance(end, Exact) else {}
    strange = [queue for queue in missing if queue not in starts or queue not in ends]
    if strange:
        raise ConfigError(
            f"assign names {_listed(strange)}, which does not exist, or its broker is away;"
            f" there are {_listed(sorted(there))}"
        )
    return [
        Loss(queue, starts[queue], ends[queue], GONE)
        for queue in missing
        if 0 <= starts[queue] < ends[queue]
    ]


def _listed(queues: Collection[MessageQueue]) -> str:
    shown = ", ".join(str(queue) for queue in list(queues)[:_SHOWN])
    rest = len(queues) - _SHOWN
    return f"{shown} and {rest} more" if rest > 0 else shown or "none"
