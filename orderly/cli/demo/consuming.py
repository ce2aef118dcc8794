"""The demo's consuming half: members of one group, and a record of all they are handed.

What is done with them while they run is in `watching` (one leaves half-way) and `mending`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import tenacity

from orderly.cli.demo.bad_record import ReadTime, read_time, read_time_mended
from orderly.cli.demo.stream import Stream
from orderly.cli.demo.trouble import EngineTroubleError, TakeOver
from orderly.config import ConsumerConfig
from orderly.consumer import OrderlyConsumer
from orderly.listening import Attempt, Outcome, PoisonRules, Retry, listener
from orderly.model import MessageQueue
from orderly.ordering.allocation import averagely
from orderly.ordering.outcomes import Ack

SURVIVOR, LEAVER, MENDED = "A", "B", "C"
SUSPEND = 0.5  # seconds a key waits after a failure, at first
# For a demo: by default it takes 5 tries in 60 s.
QUICK = PoisonRules(attempts=3, spacing=0.2, span=1.0, first_wait=SUSPEND)
NO_RETRY = Retry(stop=tenacity.stop_after_attempt(1))


@dataclass(frozen=True, slots=True)
class Delivery:
    """One call of a handler with one message; `number` is the event's own, from the body.

    `started` and `ended` are seconds on this process's monotonic clock; `replayed`: it was parked.
    """

    consumer: str
    queue: MessageQueue
    offset: int
    key: str
    number: int
    succeeded: bool
    started: float
    ended: float
    replayed: bool = False


@dataclass(slots=True)
class ConsumeLog:
    """What the members saw. Handlers append while the screen reads.

    Attributes:
        deliveries: in the order in which the calls ended.
        backlog: how many of them, and in how many seconds, until what waited at the start was
            handled, the waiting for the failing message included.
        take_over: of the queues of the consumer that left; None: it held none.
    """

    deliveries: list[Delivery] = field(default_factory=list)
    backlog: tuple[int, float] = (0, 0.0)
    take_over: TakeOver | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second of the backlog."""
        count, seconds = self.backlog
        return count / seconds if seconds else 0.0


class Members:
    """Consumers A and B in one group, later C. A context manager: starts A and B, closes all.

    Args:
        namesrv: where.
        topic: also the group's name; fresh, so that it starts at the first message.
        queues: of the topic.
        stream: what is sent, with the event that fails a few times, and the one that A and B cannot
            read.

    Attributes:
        topic, stream: as given.
        log: every delivery.
        handled: for each queue the offsets that succeeded.
        news: lines to tell, oldest first.
    """

    def __init__(
        self, namesrv: str, topic: str, queues: Iterable[MessageQueue], stream: Stream
    ) -> None:
        self.topic = topic
        self.stream = stream
        self.log = ConsumeLog()
        self.handled: dict[MessageQueue, set[int]] = {queue: set() for queue in queues}
        self.news: deque[str] = deque()
        self._namesrv = namesrv
        self._shared = False
        self._consumers = {name: self._member(name, read_time) for name in (SURVIVOR, LEAVER)}

    def __enter__(self) -> Self:
        try:
            for consumer in self._consumers.values():
                consumer.subscribe(self.topic).start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all; idempotent."""
        for consumer in self._consumers.values():
            consumer.close()

    def owners(self) -> dict[MessageQueue, str]:
        """Who holds which queue at this moment."""
        return {
            queue: name
            for name, consumer in self._consumers.items()
            for queue in consumer.assignment
        }

    def drained(self, ends: Mapping[MessageQueue, int]) -> set[MessageQueue]:
        """The queues of which all that is below their end was handled."""
        return {queue for queue, end in ends.items() if len(self.handled[queue]) >= end}

    def count(self) -> int:
        """How many messages were handled."""
        return sum(map(len, self.handled.values()))

    def parked(self) -> int:
        """How many messages of the bad record's aircraft are parked."""
        return sum(
            key.messages
            for consumer in self._consumers.values()
            for keys in consumer.parked().values()
            for key in keys
            if key.key == self.stream.bad.key
        )

    def let_one_leave(self) -> None:
        """Close consumer B in the background, once; not before it holds a queue."""
        leaver = self._consumers[LEAVER]
        queues = frozenset(leaver.assignment)
        if self.log.take_over is not None or not queues:
            return
        self.log.take_over = TakeOver(time.monotonic(), queues)
        self.news.append(f"half-way: consumer B closes and hands on its {len(queues)} queues")
        threading.Thread(target=leaver.close, name="orderly-demo-close", daemon=True).start()

    def deploy_the_fix(self) -> None:
        """Start consumer C, which can read the bad record, and close the others. Blocks."""
        mended = self._consumers[MENDED] = self._member(MENDED, read_time_mended)
        mended.subscribe(self.topic).start()
        for name in (SURVIVOR, LEAVER):
            self._consumers[name].close()

    # --- the handlers' side ----------------------------------------------------------------------

    def _member(self, name: str, read: ReadTime) -> OrderlyConsumer:
        @listener(
            on_poison="park_key",
            poison=QUICK,
            retry=NO_RETRY,
            transient=(EngineTroubleError,),
            decode="json",
            suspend=SUSPEND,
        )
        def handle(event: dict[str, Any], attempt: Attempt) -> Outcome:
            return self._handle(name, read, event, attempt)

        config = ConsumerConfig(consume_from="first", order="key")
        return OrderlyConsumer(
            self.topic, handle, namesrv=self._namesrv, config=config, allocate=self._share
        )

    def _share(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Averagely, from when both are there: each takes its half at once, and nothing moves."""
        self._shared = self._shared or len(members) > 1
        return averagely(client_id, queues, members) if self._shared else ()

    def _handle(
        self, name: str, read: ReadTime, event: dict[str, Any], attempt: Attempt
    ) -> Outcome:
        number, started = event["n"], time.monotonic()
        if self.log.take_over and name == SURVIVOR:
            self.log.take_over.delivered(attempt.message.queue, started)
        outcome: Outcome | None = None
        try:
            self._read(event, read, attempt)
            outcome = self._outcome(number, attempt.message.queue, started)
        finally:
            self._record(name, attempt, number, started, succeeded=isinstance(outcome, Ack))
        return outcome

    def _read(self, event: dict[str, Any], read: ReadTime, attempt: Attempt) -> None:
        try:
            read(event["at"])
        except ValueError as error:
            if attempt.number == 1:
                self.news.append(f"{self.stream.bad.name}: the handler raises ValueError: {error}")
            raise

    def _outcome(self, number: int, queue: MessageQueue, now: float) -> Outcome:
        failing = self.stream.failing
        if number != failing.number:
            return Ack()
        try:
            return failing.handle(queue, now, others=self.count())
        finally:
            self.news.append(failing.last_attempt())

    def _record(
        self, name: str, attempt: Attempt, number: int, started: float, *, succeeded: bool
    ) -> None:
        message = attempt.message
        queue, offset, key = message.queue, message.queue_offset, message.sharding_key or ""
        ended = time.monotonic()
        self.log.deliveries.append(
            Delivery(name, queue, offset, key, number, succeeded, started, ended, attempt.replayed)
        )
        if succeeded:
            self.handled[queue].add(offset)
