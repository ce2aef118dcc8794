"""The keys of a topic's newest messages, and where they lie: one bounded read, without a trace.

No pull, no group, no subscription: see `heads`. Bounded in requests (about one a message, and one
for every few) and in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from orderly.client import Client
from orderly.client.pipeline import Pipeline
from orderly.errors import OrderlyError, RemotingError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.monitoring.collecting.questions import Asking, ScanContext, topic_stats
from orderly.monitoring.collecting.traceless_reading import OffsetRange, read_ranges
from orderly.monitoring.placement import Sightings
from orderly.protocol.statistics import TopicOffset
from orderly.selectors import Layout, layout_of, queues_of

_AT_ONCE = 16  # stretches; a few hundred messages are in memory at a time
_PIECE = 32  # messages looked up at once
_GO_KEY = "SHARDING_KEY"  # what Go's WithShardingKey writes, without the underscores of all others
OnRead = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class StoredKeys:
    """What was read.

    Attributes:
        topic: its name.
        layout: its queues now.
        held: how many messages each queue holds, in counting order; None: not known.
        seen: keys of those that were read.
        planned: how many messages were to be read; what was deleted meanwhile, or did not come in
            time, is missing in `seen`.
        errors: of brokers that did not answer, by name.
    """

    topic: str
    layout: Layout
    held: Mapping[MessageQueue, int | None]
    seen: Sightings
    planned: int
    errors: Mapping[str, str]


def read_keys(
    client: Client, topic: str, most: int, timeout: float, on_read: OnRead = lambda _, __: None
) -> StoredKeys:
    """Read the newest messages of each queue, of each as large a part as it holds of all. Blocks.

    Args:
        client: need not be started.
        topic: as the brokers name it.
        most: messages to read, at most.
        timeout: seconds for the messages, and for the look at the offsets.
        on_read: gets how many messages have been read, and of how many.

    Raises:
        TopicNotFound: there is no such topic.
        OrderlyError: no name server answers, or the topic has no queue to write to.
    """
    return _Reading(client, topic, timeout).read(most, on_read)


class _Reading:
    """The questions about one topic. One thread."""

    def __init__(self, client: Client, topic: str, timeout: float) -> None:
        route = client.routes.get(topic)
        self._topic, self._timeout = topic, timeout
        self._layout = layout_of(route)
        self._queues = queues_of(self._layout, topic)
        brokers = ((name, route.broker(name)) for name, _ in self._layout.brokers)
        self._masters = {name: data.master for name, data in brokers if data and data.master}
        self._pipeline = Pipeline(client.connections)
        self._errors: dict[str, str] = {}

    def read(self, most: int, on_read: OnRead) -> StoredKeys:
        offsets = self._offsets()
        held = {queue: each.max_offset - each.min_offset for queue, each in offsets.items()}
        ends = {queue: each.max_offset for queue, each in offsets.items()}
        stretches = newest(held, ends, most)
        planned = sum(stretch.count for stretch in stretches)
        seen = Sightings()
        for number, message in enumerate(self._messages(stretches), 1):
            seen.add(_key(message), message.queue, message.store_time)
            on_read(number, planned)
        known = {queue: held.get(queue) for queue in self._queues}
        return StoredKeys(self._topic, self._layout, known, seen, planned, self._errors)

    def _offsets(self) -> dict[MessageQueue, TopicOffset]:
        """Of the queues that may be written to, as far as brokers answer."""
        found: dict[MessageQueue, TopicOffset] = {}
        names = [name for name, _ in self._layout.brokers]
        answers = self._asking().ask([(name, topic_stats(self._topic)) for name in names])
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, OrderlyError):
                self._errors[name] = str(answer)
            else:
                found |= answer
        return {queue: found[queue] for queue in self._queues if queue in found}

    def _messages(self, stretches: list[OffsetRange]) -> Iterator[ReceivedMessage]:
        """Read stretches, a few at a time; what is gone, or not read in time, is left out."""
        asking, rest = self._asking(), iter(stretches)
        while some := list(islice(rest, _AT_ONCE)):
            for stretch, found in zip(some, read_ranges(asking, some), strict=True):
                for message in (found,) if isinstance(found, OrderlyError) else found:
                    if isinstance(message, ReceivedMessage):
                        yield message
                    elif isinstance(message, RemotingError) and time.monotonic() < self._deadline:
                        self._errors.setdefault(stretch.queue.broker_name, str(message))

    def _asking(self) -> Asking:
        """Begin a round of questions, with a deadline of its own."""
        self._pipeline.begin()
        self._deadline = time.monotonic() + self._timeout
        return Asking(self._pipeline, ScanContext(self._masters, self._deadline))


def newest(
    held: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], most: int
) -> list[OffsetRange]:
    """The newest messages of each queue, of each as large a part as it holds of all.

    Equal numbers from each would make keys of quiet queues look larger than they are. Pieces of
    all queues alternate, so that a reading that is cut short is a fair one, too.

    Args:
        held: how many messages each queue holds.
        ends: the offset that its next message gets.
        most: messages in all.
    """
    total, end_at, placed = sum(held.values()) or 1, 0, []
    read = min(most, total)
    for queue, count in held.items():
        start_at, end_at = end_at, end_at + count
        part = read * end_at // total - read * start_at // total
        end, start = ends[queue], ends[queue] - part
        pieces = [(max(start, at - _PIECE), at) for at in range(end, start, -_PIECE)]
        placed += [
            ((place + 0.5) / len(pieces), OffsetRange(queue, low, high - low))
            for place, (low, high) in enumerate(pieces)
        ]
    return [piece for _, piece in sorted(placed, key=lambda each: (each[0], each[1].queue))]


def _key(message: ReceivedMessage) -> str | None:
    key = message.sharding_key
    return message.properties.get(_GO_KEY) if key is None else key
