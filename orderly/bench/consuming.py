"""The consuming side of a measurement: one member of a group of its own, which checks the order."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from orderly.bench.clock import PhaseClock
from orderly.bench.load import stamp_of
from orderly.bench.order import OrderCheck
from orderly.bench.plan import ConsumePlan
from orderly.bench.scratch import Names
from orderly.bench.tally import Tallies
from orderly.bench.watch import watch
from orderly.client import Client
from orderly.config import ProducerConfig
from orderly.consumer import OrderlyConsumer
from orderly.model import Message, MessageQueue, ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack
from orderly.producer import OrderlyProducer

GROUP = "orderly-bench"  # of producers: only the broker's statistics show it
_LET_GO = 25.0  # seconds; a broker holds a pull for 15, and looks every 5
_LOOK = 16  # of so many calls one is timed


def _as_told(_queues: Sequence[MessageQueue], _message: Message, arg: object) -> MessageQueue:
    assert isinstance(arg, MessageQueue)
    return arg


class Consuming:
    """Consumes a topic with a handler that checks the order and, if asked to, waits.

    Args:
        client: of its own, which it changes; it runs, and is closed by who made it.
        names: of topic, group and run.
        plan: how.
        clock: where CPU time is booked.
        delays: whether to take how old the run's messages are.

    Attributes:
        plan: how.
        watched: the requests.
        tallies: what is handled.
        order: what the order was.
        busy: how many calls of the handler wait; always 0 if they do not.
        first: time.monotonic() of the first message; None: none yet.
    """

    def __init__(
        self,
        client: Client,
        names: Names,
        plan: ConsumePlan,
        clock: PhaseClock,
        *,
        delays: bool,
    ) -> None:
        self.plan = plan
        self.watched = watch(client, clock)
        self.tallies = Tallies()
        self.order = OrderCheck()
        self.busy = 0
        self.first: float | None = None
        self._busy_lock = threading.Lock()
        self._client = client
        self._topic = names.topic
        self._wait = plan.handler_ms / 1000
        self._run = names.run if delays else None
        handler = self._handle_async if plan.coroutines else self._handle
        self._consumer = OrderlyConsumer(names.group, handler, client=client, config=plan.config)

    def start(self) -> None:
        """Join the group.

        Raises:
            OrderlyError: there is no such topic, no broker, or the group may not be.
        """
        self._consumer.subscribe(self._topic).start()

    @property
    def queues(self) -> int:
        """How many queues are held now."""
        return len(self._consumer.assignment)

    @property
    def last(self) -> float:
        """When the last message was handled, on time.monotonic."""
        latest = max((tally.last_ns for tally in self.tallies.all()), default=0)
        return time.monotonic() - (time.time_ns() - latest) / 1e9

    @property
    def handled(self) -> int:
        """How many messages were handled, without repeats."""
        return self.tallies.messages() - self.order.repeats

    def close(self) -> None:
        """Save the offsets and leave. Idempotent."""
        self._consumer.close()

    def let_go(self, *, wake: bool) -> None:
        """After `close`: wait until the brokers hold no pull any more.

        One that is answered after the group was deleted makes the group again (in Java
        PullMessageProcessor, which asks for the settings of its group).

        Args:
            wake: send a message into each queue, which ends its pull; otherwise that takes up to
                20 s.
        """
        if wake:
            loose = ProducerConfig(layout="loose")
            with OrderlyProducer(GROUP, client=self._client, config=loose) as producer:
                for queue in self.watched.pulled:
                    producer.send(Message(queue.topic, b"end"), selector=_as_told, arg=queue)
        until = time.monotonic() + _LET_GO
        while self.watched.pulls.in_flight and time.monotonic() < until:
            time.sleep(0.02)

    # --- handlers ------------------------------------------------------------------------------

    def _handle(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Ack:  # noqa: ARG002
        self._take(messages)
        if self._wait:
            self._begin_wait()
            time.sleep(self._wait)
            self._end_wait()
        return Ack()

    async def _handle_async(
        self,
        messages: Sequence[ReceivedMessage],
        context: ConsumeContext,  # noqa: ARG002
    ) -> Ack:
        self._take(messages)
        if self._wait:
            self._begin_wait()
            await asyncio.sleep(self._wait)
            self._end_wait()
        return Ack()

    def _begin_wait(self) -> None:
        with self._busy_lock:
            self.busy += 1

    def _end_wait(self) -> None:
        with self._busy_lock:
            self.busy -= 1

    def _take(self, messages: Sequence[ReceivedMessage]) -> None:
        """Count and check messages; now and then see what that costs."""
        tally = self.tallies.mine()
        tally.calls += 1
        looks = tally.calls % _LOOK == 1
        began = time.thread_time() if looks else 0.0
        now = tally.last_ns = time.time_ns()
        for message in messages:
            stamp = stamp_of(message)
            if stamp is None:
                self._check_foreign(message)
            else:
                self.order.came((stamp.run, message.sharding_key), stamp.number)
                if stamp.run == self._run:
                    tally.latency.add((now - stamp.time_ns) / 1e9)
            tally.bytes += len(message.body)
        tally.messages += len(messages)
        if looks:
            tally.looked += 1
            tally.looked_cpu += time.thread_time() - began
        if self.first is None:
            self.first = time.monotonic()

    def _check_foreign(self, message: ReceivedMessage) -> None:
        place: tuple[MessageQueue, str | None] = message.queue, message.sharding_key
        self.order.came_unnumbered(place, message.queue_offset)
