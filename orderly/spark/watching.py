"""A stream's offsets: what there is to read, who is away, and from one batch to the next.

A broker that is away does not end the query: its queues stay where they are, and are read on when
it is back. A stream is to run for months, and brokers are restarted; to wait loses nothing, as
the offsets are in the checkpoint. Only where the stream begins, and where it is asked for all
that is there now (Trigger.AvailableNow), is everybody needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.spark.discovering import (
    TopicsSeen,
    look_again,
    look_closely,
    names,
    selected,
    starting,
)
from orderly.spark.offsets import (
    CUT,
    GONE,
    Loss,
    OffsetSpan,
    OffsetTable,
    QueueRange,
    from_object,
    readable,
    settle,
    to_object,
)
from orderly.spark.options import ReadOptions

# --- offsets that only ever grow, and their checkpoints -------------------------------------------
# Pure. Spark takes any offsets for the next ones, also lower ones, and reads nothing then without
# a word.


Offsets = dict[MessageQueue, int]
_FIRST_MARK = "$first"  # no topic can be called so
_CHECKPOINT = "the checkpoint"


def advanced(
    start: Offsets, spans: Mapping[MessageQueue, OffsetSpan], limit: int | None
) -> Offsets:
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
    start: Offsets, spans: Mapping[MessageQueue, OffsetSpan], gone: Callable[[MessageQueue], bool]
) -> list[Loss]:
    """Queues that can't go on from where the stream is: cut off, recreated, or gone.

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


def first_checkpoint(offsets: Offsets) -> OffsetTable:
    """Where a stream begins, for Spark to hand back.

    Spark asks for it again when it repeats the first batch after a crash, and "latest" would be
    another place then. So it is marked, and the first batch's end says where it truly began.
    """
    return to_object(offsets) | {_FIRST_MARK: {}}


def next_checkpoint(start: OffsetTable, end: Offsets) -> OffsetTable:
    """A batch's end for Spark to keep; `start` itself if there is nothing new."""
    begin = offsets_in(start)
    if end == begin:
        return start
    first = start.get(_FIRST_MARK) == {}
    return to_object(end) | ({_FIRST_MARK: to_object(begin)} if first else {})


def offsets_in(checkpoint: OffsetTable) -> Offsets:
    """The offsets that Spark handed back.

    Raises:
        ConfigError: the checkpoint is of another source.
    """
    return from_object(
        {topic: at for topic, at in checkpoint.items() if topic != _FIRST_MARK}, _CHECKPOINT
    )


def beginning(start: OffsetTable, end: OffsetTable) -> Offsets:
    """Where a batch begins; of the first one its end knows it better than `start`."""
    if start.get(_FIRST_MARK) == {} and end.get(_FIRST_MARK):
        return from_object(end[_FIRST_MARK], _CHECKPOINT)
    return offsets_in(start)


Q = TypeVar("Q")


def shares(waiting: Mapping[Q, int], limit: int) -> dict[Q, int]:
    """Divide a batch's messages among queues, in proportion to what waits in each.

    No queue that has something is left out, so that a small one is not starved by a large one:
    with more of them than `limit`, each gives one message and the batch is that much larger.

    Args:
        waiting: messages by queue.
        limit: messages for all of them, 1 or more.

    Returns:
        How many to read, by queue; exactly `limit` in all where as many wait.
    """
    some = {queue: count for queue, count in waiting.items() if count > 0}
    if sum(some.values()) <= limit:
        return {queue: max(count, 0) for queue, count in waiting.items()}
    given = dict.fromkeys(waiting, 0) | dict.fromkeys(some, 1)
    left, beyond = limit - len(some), sum(some.values()) - len(some)
    if left < 0:
        return given
    owed: list[tuple[int, int, Q]] = []  # what rounding down withholds, largest first
    for place, (queue, count) in enumerate(some.items()):
        whole, part = divmod((count - 1) * left, beyond)
        given[queue] += whole
        owed.append((-part, place, queue))
    rest = limit - sum(given.values())
    for _, _, queue in sorted(owed)[:rest]:
        given[queue] += 1
    return given


# --- what one stream sees -------------------------------------------------------------------------


_log = get_logger("orderly.spark")


class StreamWatch:
    """What one stream sees. For one thread.

    Args:
        client: asks.
        options: of the stream.
    """

    def __init__(self, client: Client, options: ReadOptions) -> None:
        self._client = client
        self._options = options
        self._frozen: TopicsSeen | None = None
        self._seen: TopicsSeen | None = None
        self._fresh: TopicsSeen | None = None
        self._reported: set[Loss] = set()  # their starts left out: where a queue ends may change
        self._away: set[tuple[str, str]] = set()

    def beginning(self) -> Offsets:
        """Where the options say that a stream begins.

        Raises:
            OrderlyError: no such topic, or a broker that does not answer.
        """
        return starting(self._client, self._options)

    def freeze(self) -> None:
        """Take the ends of now for the ends of all times.

        Raises:
            OrderlyError: somebody does not answer, so that the ends are not known.
        """
        topics = names(self._client, self._options.selection)
        self._frozen = self._own(look_closely(self._client, topics).whole())

    def look(self, start: Offsets) -> TopicsSeen:
        """Look at the queues to read.

        Args:
            start: where the stream is.

        Raises:
            DataLost: it can't go on from there (unless failOnDataLoss=false).
        """
        at = {queue: offset for queue, offset in start.items() if self._is_ours(queue)}
        seen = self._frozen or self._own(look_again(self._client, self._topics(at), at))
        self._report_away(seen, at)
        self._seen, self._fresh = seen, None if self._frozen else seen
        losses = stranded(at, seen.spans, seen.gone)
        if losses and self._frozen:  # Spark asks for "latest", or a group's place, after the freeze
            now = self._own(look_again(self._client, self._topics(at), at))
            losses = stranded(at, now.spans, now.gone)
        settle([loss for loss in losses if _known_as(loss) not in self._reported], fail=self._fail)
        self._reported |= set(map(_known_as, losses))  # else each batch would warn of the same
        return seen

    def ends(self) -> Offsets:
        """The ends of the queues, as they were seen last."""
        return {queue: span.high for queue, span in self._seen.spans.items()} if self._seen else {}

    def still_there(self, ranges: Iterable[QueueRange]) -> list[QueueRange]:
        """What can be read of a batch's ranges.

        What can't be judged now is kept: the tasks will see, and try for longer.

        Raises:
            DataLost: something is lost (unless failOnDataLoss=false).
        """
        wanted = list(ranges)
        seen = self._looked_just_now([each.queue for each in wanted])
        kept: list[QueueRange] = []
        losses: list[Loss] = []
        for each in wanted:
            if each.queue in seen.spans or seen.gone(each.queue):
                there, lost = readable(each, seen.spans.get(each.queue))
                losses += lost
                kept.append(there)
            else:
                kept.append(each)
        settle(losses, fail=self._fail)
        return kept

    def _looked_just_now(self, queues: Collection[MessageQueue]) -> TopicsSeen:
        """What `look` saw for this same batch, or a look of its own where the batch is repeated."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None and all(queue in fresh.spans for queue in queues):
            return fresh
        return look_again(self._client, sorted({queue.topic for queue in queues}), queues)

    @property
    def _fail(self) -> bool:
        return self._options.fail_on_data_loss

    def _topics(self, start: Offsets) -> list[str]:
        """The topics to look at, with those that are known and may be gone."""
        known = {queue.topic for queue in start}
        try:
            known |= set(names(self._client, self._options.selection))
        except OrderlyError as error:
            _log.warning("spark.topics_unknown", error=str(error))
        return sorted(known)

    def _is_ours(self, queue: MessageQueue) -> bool:
        return selected(self._client, self._options.selection, queue)

    def _own(self, seen: TopicsSeen) -> TopicsSeen:
        return replace(seen, spans={q: span for q, span in seen.spans.items() if self._is_ours(q)})

    def _report_away(self, seen: TopicsSeen, at: Offsets) -> None:
        """Warn when somebody goes away, not with each batch; and say when all are back."""
        away = {place: str(error) for place, error in seen.silent.items()}
        for queue in at.keys() - seen.spans.keys():
            if not seen.gone(queue):
                place = (queue.topic, queue.broker_name)
                away.setdefault(place, "the topic's route does not name it at the moment")
        for topic, broker in sorted(away.keys() - self._away):
            error = away[topic, broker]
            _log.warning("spark.waiting_for", topic=topic, broker=broker, error=error)
        for topic, broker in sorted(self._away - away.keys()):
            _log.warning("spark.back", topic=topic, broker=broker)
        self._away = set(away)


def _known_as(loss: Loss) -> Loss:
    return replace(loss, start=0)
