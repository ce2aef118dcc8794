"""How fast a cluster goes: numbered messages are sent and consumed, and each key's order checked.

`orderly bench` shows the figures; the benchmarks of this project count with the same classes.
"""

from __future__ import annotations

import asyncio
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from statistics import quantiles

from orderly.client import Client
from orderly.config import ConsumerConfig, ProducerConfig
from orderly.consumer import OrderlyConsumer
from orderly.errors import OrderlyError
from orderly.message import Message
from orderly.model import MessageQueue, ReceivedMessage, SendResult
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX, wrap
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import Ack
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.producer import OrderlyProducer
from orderly.protocol.groups import GroupConfig

_JOIN = 30.0  # seconds for the consumer to get its queues before messages are sent at a rate
_STALLED = 60.0  # seconds without any progress
_HOPELESS = 100  # failures before the first success
_LOOK = 0.05  # seconds


class OrderCheck:
    """Each key's numbers must come as 0, 1, 2, …; a repeat is allowed. Thread-safe.

    Attributes:
        due: for each key the number that comes next.
        reached: their sum: how many messages came, with those that were overtaken or are missing.
        repeats: messages that had come before, or were overtaken.
        inversions: messages that came before an earlier one of their key.
    """

    def __init__(self) -> None:
        self.due: Counter[str] = Counter()
        self.reached = self.repeats = self.inversions = 0
        self._lock = threading.Lock()

    def came(self, key: str, number: int) -> None:
        """Note that message `number` of `key` is being handled."""
        with self._lock:
            due = self.due[key]
            self.repeats += number < due
            self.inversions += number > due
            self.due[key] = max(due, number + 1)
            self.reached += self.due[key] - due


@dataclass(slots=True)
class Figures:
    """What one side did.

    Attributes:
        messages: acknowledged, or handled; repeats included.
        bytes: of their bodies.
        began, ended: the first and the last of them, seconds of time.monotonic.
        cpu: seconds of this process, both sides' if both were at work.
        latencies: seconds; of sends until the acknowledgement, of handlers since the send.
        failed: messages that were given up, by the kind of error.
    """

    messages: int = 0
    bytes: int = 0
    began: float = 0.0
    ended: float = 0.0
    cpu: float = 0.0
    latencies: array[float] = field(default_factory=lambda: array("d"))
    failed: Counter[str] = field(default_factory=Counter)

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(self.ended - self.began, 1e-9)

    def percentile(self, percent: int) -> float | None:
        """Milliseconds that `percent` of 100 latencies do not exceed; None: none were taken."""
        if len(self.latencies) < 2:
            return self.latencies[0] * 1000 if self.latencies else None
        return quantiles(self.latencies, n=100, method="inclusive")[percent - 1] * 1000


class Sending:
    """Sends numbered messages of `keys` keys in turn. For one thread.

    Args:
        client: of its own; runs.
        topic: with its namespace.
        size: bytes of a body, 64 or more: it says its number, and when it was sent.
        keys: how many sharding keys.
        rate: messages a second; None: as fast as it goes.
        sync: wait for each answer; otherwise `submit`, which sends batches.
    """

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        size: int,
        keys: int,
        rate: float | None = None,
        sync: bool = False,
    ) -> None:
        self.figures = Figures()
        self._producer = OrderlyProducer(client=client, config=ProducerConfig(layout="loose"))
        self._topic, self._size, self._keys = topic, size, keys
        self._rate, self._sync = rate, sync
        self._lock = threading.Lock()

    def run(
        self, count: int, progress: Callable[[int], None], stopped: Callable[[], object]
    ) -> None:
        """Send `count` messages and wait for all answers.

        Args:
            count: how many.
            progress: gets how many are sent.
            stopped: whether to end before.
        """
        figures, cpu = self.figures, time.process_time()
        figures.began = time.monotonic()
        try:
            with self._producer:
                for place in range(count):
                    if stopped():
                        break
                    if self._rate:
                        due = figures.began + place / self._rate
                        time.sleep(max(0.0, due - time.monotonic()))
                    self._send(place)
                    progress(place + 1)
                    if not figures.messages and figures.failed.total() >= _HOPELESS:
                        break
                self._producer.flush()
        finally:
            figures.ended = time.monotonic()
            figures.cpu = time.process_time() - cpu

    def _send(self, place: int) -> None:
        number, key = divmod(place, self._keys)
        began = time.monotonic()
        body = f"{number} {began!r} ".ljust(self._size, ".").encode()
        message = Message(self._topic, body, sharding_key=f"key-{key}")
        try:
            if self._sync:
                self._producer.send(message)
                self._stored(began)
            else:
                self._producer.submit(message).add_done_callback(partial(self._answered, began))
        except OrderlyError as error:
            self._failed(error)

    def _answered(self, began: float, future: Future[SendResult]) -> None:
        error = future.exception()
        if error is None:
            self._stored(began)
        else:
            self._failed(error)

    def _stored(self, began: float) -> None:
        with self._lock:
            self.figures.messages += 1
            self.figures.bytes += self._size
            self.figures.latencies.append(time.monotonic() - began)

    def _failed(self, error: BaseException) -> None:
        with self._lock:
            self.figures.failed[type(error).__name__] += 1


class Consuming:
    """Consumes them with a handler that checks the order and, if asked to, waits.

    Args:
        client: of its own; runs.
        name: of the topic and the group, with their namespace.
        config: of the consumer.
        handler_ms: how long the handler waits, in milliseconds.
        coroutines: the handler is an `async def`.
        delays: take latencies; how old a backlog is says nothing.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        config: ConsumerConfig,
        *,
        handler_ms: float = 0.0,
        coroutines: bool = False,
        delays: bool = True,
    ) -> None:
        self.figures, self.order = Figures(), OrderCheck()
        self._client, self._topic, self._wait = client, name, handler_ms / 1000
        self._delays = delays
        self._lock = threading.Lock()
        self._cpu = 0.0
        handler = self._handle_async if coroutines else self._handle
        self._consumer = OrderlyConsumer(name, handler, client=client, config=config)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Be a member of the group; begins when it holds every queue, or after half a minute."""
        queues = set(self._client.admin.topic_stats(self._topic))
        until = time.monotonic() + _JOIN
        with self._consumer.subscribe(self._topic):
            self._cpu = time.process_time()
            while not queues <= set(self._consumer.assignment) and time.monotonic() < until:
                time.sleep(_LOOK)
            yield

    def wait(
        self, count: int, progress: Callable[[int], None], stopped: Callable[[], object]
    ) -> bool:
        """Wait until `count` messages came, or later ones of their keys.

        Args:
            count: how many.
            progress: gets how many did.
            stopped: whether to end before.

        Returns:
            False: it was to end before, or nothing moved for a minute.
        """
        moved, seen = time.monotonic(), -1
        while (came := self.order.reached) < count:
            if stopped():
                return False
            if self.figures.messages != seen:
                moved, seen = time.monotonic(), self.figures.messages
            if time.monotonic() - moved > _STALLED:
                return False
            progress(came)
            time.sleep(_LOOK)
        return True

    def _handle(self, messages: Sequence[ReceivedMessage], _context: ConsumeContext) -> Ack:
        self._take(messages)
        time.sleep(self._wait)
        return Ack()

    async def _handle_async(
        self, messages: Sequence[ReceivedMessage], _context: ConsumeContext
    ) -> Ack:
        self._take(messages)
        await asyncio.sleep(self._wait)
        return Ack()

    def _take(self, messages: Sequence[ReceivedMessage]) -> None:
        now = time.monotonic()
        for message in messages:
            number, sent, _ = message.body.split(b" ", 2)
            self.order.came(message.sharding_key or "", int(number))
            if self._delays:
                self.figures.latencies.append(now - float(sent))
        with self._lock:
            figures = self.figures
            figures.began = figures.began or now
            figures.messages += len(messages)
            figures.bytes += sum(len(message.body) for message in messages)
            figures.ended, figures.cpu = now, time.process_time() - self._cpu


@contextmanager
def scratch(
    client: Client, name: str, queues: int, cluster: str | None, left: list[str]
) -> Iterator[None]:
    """Make a topic and a group of one name, and take away in the end all that came of them.

    Args:
        client: runs.
        name: with its namespace.
        queues: on each broker.
        cluster: None: there is only one.
        left: gets what is still there in the end, and why.
    """
    keeper = client.housekeeping
    try:
        client.admin.create_topic(name, queues, cluster=cluster)
        keeper.put_group(GroupConfig(name=name, orderly=True))
        yield
    finally:
        own = {
            name,
            RETRY_PREFIX + name,
            DEAD_PREFIX + name,
            state_topic(name, name),
            park_topic(name, name),
        }
        try:
            there = own.intersection(client.admin.topics())
            with suppress(OrderlyError):  # who may not send has no pull there either
                _end_held_pulls(client, there & {name, RETRY_PREFIX + name})
            for topic in there:
                keeper.delete_topic(topic)
            keeper.delete_group(name)
        except OrderlyError as error:
            left.append(f"topic and group {name}: {error}")


def _end_held_pulls(client: Client, topics: set[str]) -> None:
    """Have the broker answer the pulls that it holds for a member that has closed.

    It makes a deleted group again when it answers one (in Java PullMessageProcessor, which asks for
    the settings of the group). A message in each queue ends its pull.
    """
    loose = ProducerConfig(layout="loose")
    with OrderlyProducer(client=client, config=loose) as producer:
        for topic in topics:
            for queue in client.admin.topic_stats(topic):
                producer.send(Message(topic, b"end"), selector=_given, arg=queue)


def _given(_queues: Sequence[MessageQueue], _message: Message, queue: object) -> MessageQueue:
    assert isinstance(queue, MessageQueue)
    return queue


def named(client: Client, number: int) -> str:
    """The name of one measurement's topic and group, with the client's namespace."""
    return wrap(client.config.namespace, f"orderly-bench-{number:08x}")
