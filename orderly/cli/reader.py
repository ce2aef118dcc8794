"""Reads a topic by pulling, without joining a group and without committing.

Order: what is stored at the start is merged over the queues by store time; what comes later is
handed out as it is found. Within a queue it is always the queue's own order.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator

from orderly.client import Client
from orderly.client.broker import PullQuery, PullResult
from orderly.config import parse_consume_from
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.heartbeat import Subscription

# A pull must name a group, and a broker makes one that it does not know. Every broker has this one,
# for tools; it is never joined.
GROUP = "TOOLS_CONSUMER"
PULL = 32  # messages; the broker's own limit
IDLE = 0.5  # seconds between rounds when nothing new was found


class TopicReader:
    """Pulls all readable queues of a topic from one start position. For one thread."""

    def __init__(self, client: Client, topic: str, start: str) -> None:
        """Look up the queues, and where in each to begin.

        Args:
            client: started.
            topic: must exist.
            start: "first", "last" or an ISO 8601 time.

        Raises:
            ConfigError: `start` is none of these.
            OrderlyError: no such topic, or a broker does not answer.
        """
        position = parse_consume_from(start, "--from")
        self._client = client
        self._subscription = Subscription.from_expression(topic, "*", int(time.time() * 1000))
        self._next: dict[MessageQueue, int] = {}
        for queue in client.routes.get(topic).read_queues():
            if position == "first":
                self._next[queue] = client.brokers.min_offset(queue)
            elif position == "last":
                self._next[queue] = client.brokers.max_offset(queue)
            else:
                assert not isinstance(position, str)
                self._next[queue] = client.brokers.search_offset(queue, position.timestamp())

    def messages(self, *, follow: bool) -> Iterator[ReceivedMessage]:
        """Yield what is stored up to now; with `follow` go on for ever.

        Raises:
            OrderlyError: a broker does not answer, or says no.
        """
        ends = {queue: self._client.brokers.max_offset(queue) for queue in self._next}
        stored = [self._until(queue, end) for queue, end in ends.items()]
        yield from heapq.merge(*stored, key=lambda message: message.store_time)
        while follow:
            found = [message for queue in self._next for message in self._pull(queue)]
            yield from sorted(found, key=lambda message: message.store_time)
            if not found:
                time.sleep(IDLE)

    def _until(self, queue: MessageQueue, end: int) -> Iterator[ReceivedMessage]:
        offset = -1
        while offset < self._next[queue] < end:  # a broker that points back ends it
            offset = self._next[queue]
            yield from self._pull(queue)

    def _pull(self, queue: MessageQueue) -> list[ReceivedMessage]:
        offset = self._next[queue]
        reply: PullResult = self._client.brokers.pull_now(
            PullQuery(GROUP, queue, offset, PULL, self._subscription, suspend=0)
        )
        self._next[queue] = reply.next_offset
        return reply.messages
