"""Reads a topic by pulling, without joining a group and without committing.

Order: what is stored at the start is merged over the queues by store time; what comes later is
handed out as it is found. Within a queue it is always the queue's own order.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from orderly.cli.options import EARLIEST, LATEST, Position
from orderly.client import Client
from orderly.client.broker import PullQuery, PullResult
from orderly.errors import ConfigError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.heartbeat import Subscription

# A pull must name a group, and a broker makes one that it does not know. Every broker has this one,
# for tools; it is never joined.
GROUP = "TOOLS_CONSUMER"
PULL = 32  # messages; the broker's own limit
IDLE = 0.5  # seconds between rounds when nothing new was found


@dataclass(frozen=True, slots=True)
class Span:
    """What is read of a topic.

    Attributes:
        start: EARLIEST, LATEST, or a time: the first message stored at or after it.
        offset: begin there instead; a negative one counts from the end of each queue.
        until: a time: only what was stored before it. None: all.
        queues: only these, by broker and id; none: all that may be read.
    """

    start: Position = EARLIEST
    offset: int | None = None
    until: float | None = None
    queues: Collection[tuple[str, int]] = ()


class TopicReader:
    """Pulls a topic's queues from one position on. For one thread."""

    def __init__(self, client: Client, topic: str, span: Span) -> None:
        """Look up the queues, and where in each to begin.

        Args:
            client: started.
            topic: must exist.
            span: what to read.

        Raises:
            ConfigError: a queue of the span is not there.
            OrderlyError: no such topic, or a broker does not answer.
        """
        self._client = client
        self._until = span.until
        self._subscription = Subscription.from_expression(topic, "*", int(time.time() * 1000))
        there = {(q.broker_name, q.queue_id): q for q in client.routes.get(topic).read_queues()}
        for broker, queue_id in span.queues:
            if (broker, queue_id) not in there:
                known = ", ".join(f"{broker}/{queue_id}" for broker, queue_id in there)
                raise ConfigError(
                    f"topic {topic} has no queue {broker}/{queue_id}; it has: {known}"
                )
        chosen = [
            queue for place, queue in there.items() if place in span.queues or not span.queues
        ]
        self._next = {queue: self._start(queue, span) for queue in chosen}

    def _start(self, queue: MessageQueue, span: Span) -> int:
        ask = self._client.brokers
        if span.offset is not None:
            end = ask.max_offset(queue)
            offset = span.offset if span.offset >= 0 else end + span.offset
            return min(max(offset, ask.min_offset(queue)), end)
        if span.start == EARLIEST:
            return ask.min_offset(queue)
        if span.start == LATEST:
            return ask.max_offset(queue)
        return ask.search_offset(queue, float(span.start))

    def _end(self, queue: MessageQueue) -> int:
        ask, end = self._client.brokers, self._client.brokers.max_offset(queue)
        return end if self._until is None else min(end, ask.search_offset(queue, self._until))

    def messages(self, *, follow: bool) -> Iterator[ReceivedMessage]:
        """Yield what is stored up to now; with `follow` go on for ever.

        Raises:
            OrderlyError: a broker does not answer, or says no.
        """
        stored = [self._up_to(queue, self._end(queue)) for queue in self._next]
        yield from heapq.merge(*stored, key=lambda message: message.store_time)
        while follow:
            found = [message for queue in self._next for message in self._pull(queue)]
            yield from sorted(found, key=lambda message: message.store_time)
            if not found:
                time.sleep(IDLE)

    def _up_to(self, queue: MessageQueue, end: int) -> Iterator[ReceivedMessage]:
        offset = -1
        while offset < self._next[queue] < end:  # a broker that points back ends it
            offset = self._next[queue]
            for message in self._pull(queue):
                if message.queue_offset >= end and self._until is not None:
                    return
                yield message

    def _pull(self, queue: MessageQueue) -> list[ReceivedMessage]:
        offset = self._next[queue]
        reply: PullResult = self._client.brokers.pull_now(
            PullQuery(GROUP, queue, offset, PULL, self._subscription, suspend=0)
        )
        self._next[queue] = reply.next_offset
        return reply.messages
