"""From one batch of a stream to the next: offsets that only ever grow, and what stands in the way.

Spark takes any offsets for the next ones, also lower ones, and reads nothing then without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orderly.model import MessageQueue
from orderly.spark.offsets.limiting import shares
from orderly.spark.offsets.losses import CUT, GONE, Loss, Span
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.offsets.text import Table, from_object, to_object

Offsets = dict[MessageQueue, int]
_FIRST = "$first"  # no topic can be called so
_WHAT = "the checkpoint"


def advanced(start: Offsets, spans: Mapping[MessageQueue, Span], limit: int | None) -> Offsets:
    """Where the next batch ends.

    A queue that appeared since begins with its first message. One that is out of sight, or ends
    before its `start`, stays where it is.

    Args:
        start: where the batch begins.
        spans: of the queues in sight.
        limit: messages in the batch; None: all that wait.
    """
    begin = {queue: max(start.get(queue, 0), span.low) for queue, span in spans.items()}
    waiting = {queue: max(spans[queue].high - at, 0) for queue, at in begin.items()}
    given = waiting if limit is None else shares(waiting, limit)
    return start | {queue: begin[queue] + count for queue, count in given.items() if count}


def stranded(
    start: Offsets, spans: Mapping[MessageQueue, Span], gone: Callable[[MessageQueue], bool]
) -> list[Loss]:
    """Queues that can't go on from where the stream is: cut off, made anew, or gone.

    Args:
        start: where the stream is.
        spans: of the queues in sight.
        gone: whether one that is not in sight is no more.
    """
    cut = [
        Loss(queue, spans[queue].high, at, CUT)
        for queue, at in start.items()
        if queue in spans and spans[queue].high < at
    ]
    return cut + [Loss(queue, at, at, GONE) for queue, at in start.items() if gone(queue)]


def between(start: Offsets, end: Offsets) -> list[QueueRange]:
    """The ranges of a batch; a queue that `start` does not know is read from its first offset."""
    ranges = (QueueRange(queue, start.get(queue, 0), at) for queue, at in sorted(end.items()))
    return [each for each in ranges if each.messages > 0]


def first_checkpoint(offsets: Offsets) -> Table:
    """Where a stream begins, for Spark to hand back.

    Spark asks for it anew when it repeats the first batch after a crash, and "latest" would be
    another place then. So it is marked, and the first batch's end says where it truly began.
    """
    return to_object(offsets) | {_FIRST: {}}


def next_checkpoint(start: Table, end: Offsets) -> Table:
    """A batch's end for Spark to keep; `start` itself if there is nothing new."""
    begin = offsets_in(start)
    if end == begin:
        return start
    first = start.get(_FIRST) == {}
    return to_object(end) | ({_FIRST: to_object(begin)} if first else {})


def offsets_in(checkpoint: Table) -> Offsets:
    """The offsets that Spark handed back.

    Raises:
        ConfigError: the checkpoint is of another source.
    """
    return from_object({topic: at for topic, at in checkpoint.items() if topic != _FIRST}, _WHAT)


def beginning(start: Table, end: Table) -> Offsets:
    """Where a batch begins; of the first one its end knows it better than `start`."""
    if start.get(_FIRST) == {} and end.get(_FIRST):
        return from_object(end[_FIRST], _WHAT)
    return offsets_in(start)
