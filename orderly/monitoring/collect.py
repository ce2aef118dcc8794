"""Asks the brokers for a group's offsets, and makes rows of them for `backlog`.

Only reads: no pull, no heartbeat, no lock, nothing that creates a group (code 352 would) or
makes the monitor a member of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from orderly.client import Client
from orderly.errors import BrokerError, OrderlyError, RemotingError, RouteError, TopicNotFound
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.monitoring.backlog.verdict import QueueBacklog

_log = get_logger("orderly.monitoring")

T = TypeVar("T")
Span = tuple[int, int]  # minimum and maximum offset of a queue
NO_ANSWER = (RemotingError, BrokerError, RouteError)


def collect(client: Client, group: str, topic: str | None = None) -> list[QueueBacklog]:
    """Read the backlog of `group` on every queue of its topics (or of `topic` alone), sorted.

    Committed offsets are read before the maxima, so that a busy queue never looks as if its
    group were ahead. A queue whose broker does not answer is a row that says so.

    Raises:
        OrderlyError: nothing could be read: no name server, no such topic; or, without `topic`,
            one of the brokers does not answer, so that the group's topics are not known.
    """
    reading = _Reading(client, group)
    claimed = reading.claimed(topic)
    topics = {topic} if topic else {queue.topic for queue in claimed}
    return [row for name in sorted(topics) for row in reading.rows(name, claimed)]


class _Reading:
    """One round of questions. A broker that failed to answer once is not asked again."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._silent: set[str] = set()

    def claimed(self, topic: str | None) -> dict[MessageQueue, int]:
        """Committed offsets as consume stats give them: 0 may mean that there is none."""
        try:
            stats = self._client.admin.consume_stats(self._group, topic)
        except NO_ANSWER as error:
            if topic is None or isinstance(error, TopicNotFound):
                raise
            self._warn("consume_stats.not_read", error)
            return {}
        return {queue: offsets.consumer_offset for queue, offsets in stats.items()}

    def rows(self, topic: str, claimed: Mapping[MessageQueue, int]) -> list[QueueBacklog]:
        """A row for each queue of `topic`."""
        route = self._client.routes.get(topic)
        queues = sorted({*route.read_queues(), *(q for q in claimed if q.topic == topic)})
        committed = {queue: self._committed(queue, claimed.get(queue)) for queue in queues}
        spans = self._spans(topic, queues)
        return [self._row(queue, committed[queue], spans[queue]) for queue in queues]

    def _row(
        self, queue: MessageQueue, committed: tuple[int | None] | None, span: Span | None
    ) -> QueueBacklog:
        minimum, maximum = span or (None, None)
        offset = committed[0] if committed else None
        return QueueBacklog(
            self._group, queue, minimum, offset, maximum, readable=committed is not None
        )

    def _committed(self, queue: MessageQueue, claimed: int | None) -> tuple[int | None] | None:
        """(offset or None if never committed,), or None if the broker did not answer.

        Consume stats say 0 for a group that never committed; only the single query tells the two
        apart (Java: getConsumeStats in AdminBrokerProcessor, ConsumerManageProcessor).
        """
        if claimed:
            return (claimed,)
        brokers = self._client.brokers
        return self._ask(queue, lambda: (brokers.query_offset(self._group, queue),))

    def _spans(self, topic: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, Span | None]:
        """Minimum and maximum offset of each queue; None where the broker did not answer."""
        try:
            stats = self._client.admin.topic_stats(topic)
        except NO_ANSWER as error:
            self._warn("topic_stats.not_read", error)
            return {queue: self._span(queue) for queue in queues}
        spans = {queue: (offset.min_offset, offset.max_offset) for queue, offset in stats.items()}
        return {queue: spans.get(queue) for queue in queues}

    def _span(self, queue: MessageQueue) -> Span | None:
        brokers = self._client.brokers
        return self._ask(queue, lambda: (brokers.min_offset(queue), brokers.max_offset(queue)))

    def _ask(self, queue: MessageQueue, question: Callable[[], T]) -> T | None:
        if queue.broker_name in self._silent:
            return None
        try:
            return question()
        except NO_ANSWER as error:
            self._silent.add(queue.broker_name)
            self._warn("broker.silent", error, broker=queue.broker_name)
            return None

    def _warn(self, event: str, error: OrderlyError, **fields: str) -> None:
        _log.warning(event, group=self._group, **fields, error=str(error))
