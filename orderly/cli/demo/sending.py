"""The demo's sending half: every event by its aircraft's key, with bounded outstanding work."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.screen import Meter
from orderly.errors import OrderlyError
from orderly.model import Message, MessageQueue, SendResult
from orderly.producer import OrderlyProducer

OUTSTANDING = 5000  # results awaited at most


@dataclass(slots=True)
class SendLog:
    """What was sent, by the event's number.

    Attributes:
        stored: queue and offset of each event that the broker acknowledged.
        failed: why, for each that it did not.
        seconds: from the first send to the last answer.
    """

    stored: dict[int, tuple[MessageQueue, int]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Messages stored a second."""
        return len(self.stored) / self.seconds if self.seconds else 0.0

    def per_queue(self) -> dict[int, int]:
        """Messages stored by queue id."""
        counts: dict[int, int] = {}
        for queue, _ in self.stored.values():
            counts[queue.queue_id] = counts.get(queue.queue_id, 0) + 1
        return counts


def send_events(
    producer: OrderlyProducer, topic: str, events: Sequence[FlightEvent], meter: Meter
) -> SendLog:
    """Send `events` in their order; returns when each is stored or has failed."""
    log = SendLog()
    waiting: deque[tuple[int, Future[SendResult]]] = deque()
    started = time.monotonic()
    for number, event in enumerate(events):
        waiting.append((number, producer.submit(message_of(topic, number, event))))
        while waiting and (len(waiting) >= OUTSTANDING or waiting[0][1].done()):
            _settle(log, *waiting.popleft())
        meter(len(log.stored))
    while waiting:
        _settle(log, *waiting.popleft())
        meter(len(log.stored))
    log.seconds = time.monotonic() - started
    return log


def message_of(topic: str, number: int, event: FlightEvent) -> Message:
    """The message of an event: keyed by the aircraft, tagged with what happened."""
    return Message(topic, event.body(number), sharding_key=event.tail, tags=event.kind)


def _settle(log: SendLog, number: int, future: Future[SendResult]) -> None:
    try:
        result = future.result()
    except OrderlyError as error:
        log.failed[number] = str(error)
    else:
        log.stored[number] = (result.queue, result.queue_offset)
