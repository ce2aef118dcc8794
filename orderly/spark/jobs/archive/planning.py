"""What the next run of an archive reads: from where the last one ended, and what is gone. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.spark.offsets.losses import Span
from orderly.spark.offsets.ranges import QueueRange


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be archived of one queue.

    Attributes:
        covered: from where the last run ended.
        lost: so many offsets at its beginning are deleted at the broker.
    """

    covered: QueueRange
    lost: int = 0

    @property
    def readable(self) -> QueueRange:
        """What is still there."""
        return replace(self.covered, start=self.covered.start + self.lost)


def plan(
    asked: Iterable[QueueRange],
    stored: Mapping[MessageQueue, Span],
    reached: Mapping[MessageQueue, int],
) -> tuple[Planned, ...]:
    """Say what to read of each queue.

    Queues with nothing new are left out, unless they are new themselves: where they begin is to be
    on record, or what expires before they are read once would not be missed.

    Args:
        asked: what the settings say, as if nothing had been archived.
        stored: what the brokers hold of each queue now.
        reached: where the last run ended; a queue that is not there is archived from where the
            settings say, or from 0 if the archive is older than the queue.

    Raises:
        OrderlyError: a queue ends before what is archived of it.
    """
    planned = (_of_queue(span, stored[span.queue], reached) for span in sorted(asked))
    return tuple(
        each for each in planned if each.covered.messages > 0 or each.covered.queue not in reached
    )


def _of_queue(asked: QueueRange, stored: Span, reached: Mapping[MessageQueue, int]) -> Planned:
    # A queue that is younger than the archive is wanted from its first message on.
    start = reached.get(asked.queue, 0 if reached else asked.start)
    if stored.high < start:
        raise OrderlyError(
            f"{asked.queue} ends at offset {stored.high} and is archived up to {start}: the topic"
            " was made anew, or its broker lost messages; archive it into another directory"
        )
    covered = QueueRange(asked.queue, start, max(start, asked.end))
    return Planned(covered, min(max(stored.low - start, 0), covered.messages))


def gone(asked: Iterable[QueueRange], reached: Mapping[MessageQueue, int]) -> list[MessageQueue]:
    """Queues that are archived and that nobody names any more."""
    return sorted(reached.keys() - {span.queue for span in asked})


def steps(planned: Sequence[Planned], most: int) -> list[tuple[Planned, ...]]:
    """Cut a plan into runs of about `most` messages, of every queue its share.

    A run that fails costs no more than one such step.
    """
    total = sum(each.readable.messages for each in planned)
    count = max(1, -(-total // most))
    cut = [_cut(each, count) for each in planned]
    first, *rest = zip(*cut, strict=True) if cut else [()]
    return [first, *filter(None, map(_new, rest))]


def _cut(planned: Planned, count: int) -> list[Planned]:
    readable = planned.readable
    ends = [readable.start + readable.messages * place // count for place in range(count + 1)]
    first, *rest = (
        Planned(QueueRange(readable.queue, start, end)) for start, end in pairwise(ends)
    )
    return [Planned(replace(first.covered, start=planned.covered.start), planned.lost), *rest]


def _new(pieces: Iterable[Planned]) -> tuple[Planned, ...]:
    return tuple(each for each in pieces if each.covered.messages > 0)
