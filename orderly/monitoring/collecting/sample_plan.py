"""Which messages of a topic to read, so that they stand for all of them. Pure.

A queue is sampled as much as messages come into it: equal numbers from each would make the keys
of quiet queues look larger than they are. Pieces of all queues alternate, so that a sample that is
cut short is a fair one, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from orderly.model import MessageQueue
from orderly.monitoring.collecting.heads import Stretch
from orderly.monitoring.skew.inflow import Span

_PIECE = 32  # messages looked up at once
_SPREAD_PIECE = 8  # the same over a time: smaller, so as to see more moments


def plan(
    spans: Mapping[MessageQueue, Span],
    weights: Mapping[MessageQueue, int],
    number: int,
    *,
    spread: bool,
) -> list[Stretch]:
    """Choose the stretches to read, in the order in which to read them.

    Args:
        spans: from where to where each queue may be read.
        weights: how many messages came into each, for its part of the sample.
        number: of messages, at most.
        spread: evenly over the spans; if not, the last ones.
    """
    placed = []
    for queue, count in shares(spans, weights, number).items():
        span = spans[queue]
        pieces = list(_spread(queue, span, count) if spread else _last(queue, span, count))
        placed += [((at + 0.5) / len(pieces), piece) for at, piece in enumerate(pieces)]
    return [piece for _, piece in sorted(placed, key=lambda each: (each[0], each[1].queue))]


def shares(
    spans: Mapping[MessageQueue, Span], weights: Mapping[MessageQueue, int], number: int
) -> dict[MessageQueue, int]:
    """How many messages of each queue to read; none of a queue that has none to read."""
    total = sum(weights[queue] for queue in spans)
    if not total:
        return {}
    exact = {queue: number * weights[queue] / total for queue in spans}
    counts = {queue: int(share) for queue, share in exact.items()}
    largest_rest = sorted(spans, key=lambda queue: (counts[queue] - exact[queue], queue))
    for queue in largest_rest[: number - sum(counts.values())]:
        counts[queue] += 1
    held = {queue: span.maximum - span.minimum for queue, span in spans.items()}
    return {q: min(counts[q], held[q]) for q in sorted(spans) if min(counts[q], held[q]) > 0}


def _last(queue: MessageQueue, span: Span, count: int) -> Iterator[Stretch]:
    """The newest first."""
    for end in range(span.maximum, span.maximum - count, -_PIECE):
        start = max(end - _PIECE, span.maximum - count)
        yield Stretch(queue, start, end - start)


def _spread(queue: MessageQueue, span: Span, count: int) -> Iterator[Stretch]:
    """Pieces at even distances, which do not overlap."""
    length = span.maximum - span.minimum
    pieces = -(-count // _SPREAD_PIECE)
    starts = [span.minimum + length * at // pieces for at in range(pieces)] + [span.maximum]
    for at in range(pieces):
        wanted = count * (at + 1) // pieces - count * at // pieces
        yield Stretch(queue, starts[at], min(wanted, starts[at + 1] - starts[at]))
