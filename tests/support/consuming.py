"""What behaviour tests of the consumer share: handlers that record, and bodies that count."""

import inspect
import itertools
import threading
import time
from collections import defaultdict
from dataclasses import dataclass

from orderly import Ack, ConsumeResult, Message
from orderly.ordering.allocation import averagely
from orderly.ordering.explain import Why
from orderly.testing.oracle import Delivered, Sent, judge

# --- consuming ------------------------------------------------------------------------------------
# What behaviour tests of the consumer share: a handler that records, and bodies that count.


_numbers = itertools.count(1)


def unique(prefix):
    """A name that no other test uses, also on a broker that is not ours."""
    return f"{prefix}-{time.time_ns():x}-{next(_numbers)}"


def refused_share(member):
    """A member's share of the queues, once the lock of each was refused; until then None."""
    told = {e.queue: e.why for e in member.explain() if e.why is not Why.NOT_OWNED}
    return set(told) if set(told.values()) == {Why.NOT_LOCKED} else None


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
    answer: object = None

    @property
    def success(self):
        return self.answer in (ConsumeResult.SUCCESS, Ack())


class Recorder:
    """A handler that remembers every delivery. `act` may answer instead, or raise."""

    def __init__(self, act=None):
        self.act = act
        self.deliveries = []
        self._lock = threading.Lock()

    def __call__(self, messages, context):
        started, answer = time.monotonic(), None
        try:
            answer = self.act(messages, context) if self.act else ConsumeResult.SUCCESS
            return answer
        finally:
            self._note(messages, started, answer)

    def _note(self, messages, started, answer):
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
                    answer,
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


class AsyncRecorder(Recorder):
    """The same for an `async def act`."""

    async def __call__(self, messages, context):
        started, answer = time.monotonic(), None
        try:
            answer = await self.act(messages, context)
            return answer
        finally:
            self._note(messages, started, answer)


def recording(act):
    """A recorder that calls `act`, whichever kind it is."""
    return AsyncRecorder(act) if inspect.iscoroutinefunction(act) else Recorder(act)


@dataclass(frozen=True)
class Group:
    """The members of a group in this process, and what all of them were given."""

    consumers: list
    seen: Recorder

    def settled(self, queues):
        """Whether the members own all `queues`, and each the share that it is going to keep."""
        shares = {consumer.client_id: consumer.assignment for consumer in self.consumers}
        owned, ids = sorted(itertools.chain(*shares.values())), sorted(shares)
        return len(owned) == len(set(owned)) == queues and all(
            share == tuple(averagely(client_id, owned, ids)) for client_id, share in shares.items()
        )

    def close(self):
        """Close every member."""
        for consumer in self.consumers:
            consumer.close()


def named(events, name):
    """The events of that name so far, also while others are added."""
    return [event for event in list(events) if event["event"] == name]


def send_numbers(producer, topic, keys, count, first=0, tags=None):
    """Send `count` messages a key, numbered from `first`, keys in turn; returns the results."""
    return [
        producer.send(Message(topic, str(number).encode(), sharding_key=key, tags=tags))
        for number in range(first, first + count)
        for key in keys
    ]


def first_deliveries(numbers):
    """Numbers in the order of their first appearance."""
    return list(dict.fromkeys(numbers))


def submit_numbers(producer, topic, key, count, first=0):
    """Send `count` messages of one key, in few requests; returns the results."""
    numbers = range(first, first + count)
    messages = [Message(topic, str(number).encode(), sharding_key=key) for number in numbers]
    return [future.result(30) for future in [producer.submit(m) for m in messages]]


def judged_by_key(keys, results, seen):
    """What the oracle says when the key is the unit of order.

    Args:
        keys, results: what `send_numbers` was given, from number 0 on, and what it returned.
        seen: the recorder of all members.
    """
    sent = []
    for place, stored in enumerate(results):
        key, number = keys[place % len(keys)], place // len(keys)
        sent.append(Sent(key, (key, number), (stored.queue.queue_id, key), stored.queue_offset))
    calls = sorted(seen.deliveries, key=lambda d: d.started)
    return judge(sent, [_delivered(call) for call in calls])


def _delivered(d):
    lane = (d.queue_id, d.key)
    return Delivered(d.key, (d.key, d.number), lane, d.offset, d.success, d.started, d.ended)


# --- batches --------------------------------------------------------------------------------------
# A handler for tests that care which messages come together.


class Batches:
    """Remembers the (number, attempt) pairs of each call; `act` answers.

    Args:
        act: called with ({number: message}, context).
    """

    def __init__(self, act):
        self.act = act
        self.calls = []

    def __call__(self, messages, context):
        by_number = {int(message.body): message for message in messages}
        self.calls.append([(n, m.reconsume_times + 1) for n, m in by_number.items()])
        return self.act(by_number, context)

    @property
    def batches(self):
        return [[number for number, _ in call] for call in self.calls]

    def attempts(self, number):
        return [attempt for call in self.calls for n, attempt in call if n == number]


# --- blocking -------------------------------------------------------------------------------------
# A handler that runs for as long as a test wants.


_PATIENCE = 60.0


class Blocking:
    """An `act` for a Recorder that does not return before `release`; `running`: queues held up.

    Leaving its `with` block releases it, too.

    Args:
        act: says the answer then, and at once ever after; None: SUCCESS.
        at: only the message of this number holds it up; None: whatever comes.
    """

    def __init__(self, act=None, at=None):
        self._act = act
        self._at = at
        self._released = threading.Event()
        self.running = set()

    def __call__(self, messages, context):
        if self._at is None or int(messages[0].body) == self._at:
            self.running.add(context.message_queue)
            assert self._released.wait(_PATIENCE), "nobody released the handler"
            self.running.discard(context.message_queue)
        return self._act(messages, context) if self._act else ConsumeResult.SUCCESS

    def release(self):
        self._released.set()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.release()
