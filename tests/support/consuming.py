"""What behaviour tests of the consumer share: a handler that records, and bodies that count."""

import itertools
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from orderly import ConsumeResult, Message

_numbers = itertools.count(1)


def unique(prefix):
    """A name that no other test uses, also on a broker that is not ours."""
    return f"{prefix}-{time.time_ns():x}-{next(_numbers)}"


@dataclass(frozen=True)
class Delivery:
    """One call of a handler."""

    key: str
    number: int
    queue_id: int
    offset: int
    attempt: int
    started: float
    ended: float


class Recorder:
    """A handler that remembers every delivery. `act` may answer instead, or raise."""

    def __init__(self, act=None):
        self.act = act
        self.deliveries = []
        self._lock = threading.Lock()

    def __call__(self, messages, context):
        started = time.monotonic()
        try:
            return self.act(messages, context) if self.act else ConsumeResult.SUCCESS
        finally:
            with self._lock:
                self.deliveries += [
                    Delivery(
                        message.sharding_key,
                        int(message.body),
                        message.queue.queue_id,
                        message.queue_offset,
                        message.reconsume_times + 1,
                        started,
                        time.monotonic(),
                    )
                    for message in messages
                ]

    def numbers(self, key):
        return [d.number for d in list(self.deliveries) if d.key == key]

    def by_key(self):
        found = defaultdict(list)
        for delivery in list(self.deliveries):
            found[delivery.key].append(delivery.number)
        return found


@dataclass(frozen=True)
class Group:
    """The members of a group in this process, and what all of them were given."""

    consumers: list
    seen: Recorder

    def settled(self, queues):
        """Whether the members own all `queues`, each exactly one share of them."""
        owned = [queue for consumer in self.consumers for queue in consumer.assignment]
        counts = sorted(len(consumer.assignment) for consumer in self.consumers)
        return len(owned) == len(set(owned)) == queues and counts[-1] - counts[0] <= 1

    def close(self):
        """Close every member."""
        for consumer in self.consumers:
            consumer.close()


def send_numbers(producer, topic, keys, count, first=0):
    """Send `count` messages a key, numbered from `first`, keys in turn; returns the results."""
    return [
        producer.send(Message(topic, str(number).encode(), sharding_key=key))
        for number in range(first, first + count)
        for key in keys
    ]


def first_deliveries(numbers):
    """Numbers in the order of their first appearance."""
    return list(dict.fromkeys(numbers))
