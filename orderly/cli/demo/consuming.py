"""The demo's consuming half: two consumers of one group, and a record of all they are handed.

What to do with them while they run (close one half-way, show the queues) is in `watching`.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from orderly.cli.demo.trouble import FailingMessage, TakeOver
from orderly.config import ConsumerConfig
from orderly.consumer import ConsumeContext, ConsumeResult, Handler, OrderlyConsumer
from orderly.model import MessageQueue, ReceivedMessage

SURVIVOR, LEAVER = "A", "B"
SUSPEND = 0.5  # seconds a queue waits after a failure


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of a handler with one message; `number` is the event's own, from the body.

    `started` and `ended` are seconds on this process's monotonic clock.
    """

    consumer: str
    queue: MessageQueue
    offset: int
    key: str
    number: int
    succeeded: bool
    started: float
    ended: float


@dataclass(slots=True)
class ConsumeLog:
    """What the two consumers saw. Handlers append while the screen reads."""

    deliveries: list[Delivery] = field(default_factory=list)
    seconds: float = 0.0
    take_over: TakeOver | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second, the waiting for the failing message included."""
        return len(self.deliveries) / self.seconds if self.seconds else 0.0


class Duo:
    """Consumers A and B in one group. A context manager: starts both, closes both.

    Args:
        namesrv: where.
        group: fresh, so that both start at the first message.
        ends: for each queue the offset behind its last message.
        failing: the message that makes trouble.

    Attributes:
        log: every delivery, in the order of the handlers' calls.
        done: for each queue the offset behind the last message that succeeded.
        news: lines to tell, oldest first.
    """

    def __init__(
        self, namesrv: str, group: str, ends: Mapping[MessageQueue, int], failing: FailingMessage
    ) -> None:
        self.log = ConsumeLog()
        self.ends = ends
        self.failing = failing
        self.done: dict[MessageQueue, int] = dict.fromkeys(ends, 0)
        self.news: deque[str] = deque()
        config = ConsumerConfig(consume_from="first", suspend=SUSPEND)
        self._consumers = {
            name: OrderlyConsumer(group, self._handler(name), namesrv=namesrv, config=config)
            for name in (SURVIVOR, LEAVER)
        }

    def __enter__(self) -> Self:
        topic = next(iter(self.ends)).topic
        try:
            for consumer in self._consumers.values():
                consumer.start()
            # Both are members before there is anything to share: each takes its half at once.
            for consumer in self._consumers.values():
                consumer.subscribe(topic)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close both consumers; idempotent."""
        for consumer in self._consumers.values():
            consumer.close()

    def owners(self) -> dict[MessageQueue, str]:
        """Who holds which queue at this moment."""
        return {
            queue: name
            for name, consumer in self._consumers.items()
            for queue in consumer.assignment
        }

    def let_one_leave(self) -> None:
        """Close consumer B in the background, once; not before it holds a queue."""
        leaver = self._consumers[LEAVER]
        queues = frozenset(leaver.assignment)
        if self.log.take_over is not None or not queues:
            return
        self.log.take_over = TakeOver(time.monotonic(), queues)
        self.news.append(f"half-way: consumer B closes and hands on its {len(queues)} queues")
        threading.Thread(target=leaver.close, name="orderly-demo-close", daemon=True).start()

    # --- the handlers' side ----------------------------------------------------------------------

    def _handler(self, name: str) -> Handler:
        def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> ConsumeResult:
            del context  # one message a call, and the answer says it all
            return self._handle(name, messages[0])

        return handle

    def _handle(self, name: str, message: ReceivedMessage) -> ConsumeResult:
        number, now = json.loads(message.body)["n"], time.monotonic()
        if self.log.take_over and name == SURVIVOR:
            self.log.take_over.delivered(message.queue, now)
        result: ConsumeResult | None = None
        try:
            result = self._outcome(number, message.queue, now)
        finally:
            succeeded = result is ConsumeResult.SUCCESS
            self._record(name, message, number, now, succeeded=succeeded)
        return result

    def _outcome(self, number: int, queue: MessageQueue, now: float) -> ConsumeResult:
        if number != self.failing.number:
            return ConsumeResult.SUCCESS
        elsewhere = sum(self.done.values()) - self.done[queue]
        try:
            return self.failing.handle(queue, now, others=elsewhere)
        finally:
            self.news.append(self.failing.last_attempt())

    def _record(
        self, name: str, message: ReceivedMessage, number: int, started: float, *, succeeded: bool
    ) -> None:
        queue, offset, key = message.queue, message.queue_offset, message.sharding_key or ""
        ended = time.monotonic()
        self.log.deliveries.append(
            Delivery(name, queue, offset, key, number, succeeded, started, ended)
        )
        if succeeded:
            self.done[queue] = max(self.done[queue], offset + 1)
