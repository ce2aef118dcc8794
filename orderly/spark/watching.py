"""Watching topics for a stream: what there is to read, and who is away.

A broker that is away does not end the query: its queues stay where they are, and are read on when
it is back. A stream is to run for months, and brokers are restarted; to wait loses nothing, as the
offsets are in the checkpoint. Only where the stream begins, and where it is asked for all that is
there now (Trigger.AvailableNow), is everybody needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.spark.discovering import starting
from orderly.spark.looking import Look, look_again, look_closely, names, selected
from orderly.spark.offsets.advancing import Offsets, stranded
from orderly.spark.offsets.losses import Loss, readable
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import ReadOptions
from orderly.spark.telling import settle

_log = get_logger("orderly.spark")


class Watch:
    """What one stream sees. For one thread.

    Args:
        client: asks.
        options: of the stream.
    """

    def __init__(self, client: Client, options: ReadOptions) -> None:
        self._client = client
        self._options = options
        self._frozen: Look | None = None
        self._seen: Look | None = None
        self._fresh: Look | None = None
        self._told: set[Loss] = set()  # their starts left out: where a queue ends may change
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

    def look(self, start: Offsets) -> Look:
        """Look at the queues to read.

        Args:
            start: where the stream is.

        Raises:
            DataLost: it can't go on from there (unless failOnDataLoss=false).
        """
        at = {queue: offset for queue, offset in start.items() if self._is_ours(queue)}
        seen = self._frozen or self._own(look_again(self._client, self._topics(at), at))
        self._tell_away(seen, at)
        self._seen, self._fresh = seen, None if self._frozen else seen
        losses = stranded(at, seen.spans, seen.gone)
        if losses and self._frozen:  # Spark asks for "latest", or a group's place, after the freeze
            now = self._own(look_again(self._client, self._topics(at), at))
            losses = stranded(at, now.spans, now.gone)
        settle([loss for loss in losses if _known_as(loss) not in self._told], fail=self._fail)
        self._told |= set(map(_known_as, losses))  # else each batch would warn of the same
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

    def _looked_just_now(self, queues: Collection[MessageQueue]) -> Look:
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

    def _own(self, seen: Look) -> Look:
        return replace(seen, spans={q: span for q, span in seen.spans.items() if self._is_ours(q)})

    def _tell_away(self, seen: Look, at: Offsets) -> None:
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
