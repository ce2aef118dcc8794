"""The demo's sending half: every event by its aircraft's key, with bounded outstanding work."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

from orderly.cli.demo.screen import Meter
from orderly.errors import OrderlyError
from orderly.model import Message, MessageQueue, SendResult
from orderly.producer import OrderlyProducer

OUTSTANDING = 5000  # results awaited at most
LIVE_SECONDS = 8.0
Numbered = tuple[int, Message]
"""A message and its event's number."""


@dataclass(slots=True)
class SendLog:
    """What was sent, by the event's number.

    Attributes:
        stored: queue and offset of each event that the broker acknowledged.
        failed: why, for each that it did not.
        seconds: from the first send to the last answer; live traffic, which is slow on purpose,
            does not count.
        fast: events stored in these seconds.
    """

    stored: dict[int, tuple[MessageQueue, int]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    seconds: float = 0.0
    fast: int = 0

    @property
    def rate(self) -> float:
        """Messages stored a second."""
        return self.fast / self.seconds if self.seconds else 0.0

    def per_queue(self) -> dict[str, int]:
        """Messages stored by queue: its id, with the broker's name where there are several."""
        counts = sorted(Counter(queue for queue, _ in self.stored.values()).items())
        several = len({queue.broker_name for queue, _ in counts}) > 1
        return {
            f"{queue.broker_name}/{queue.queue_id}" if several else str(queue.queue_id): count
            for queue, count in counts
        }


def send_all(producer: OrderlyProducer, messages: Iterable[Numbered], meter: Meter) -> SendLog:
    """Send `messages` in their order, fast; returns when each is stored or has failed."""
    log, started = SendLog(), time.monotonic()
    send_events(producer, messages, log, meter)
    log.seconds, log.fast = time.monotonic() - started, len(log.stored)
    return log


def send_events(
    producer: OrderlyProducer, messages: Iterable[Numbered], log: SendLog, meter: Meter
) -> None:
    """Send `messages` as they come; returns when each is stored or has failed."""
    waiting: deque[tuple[int, Future[SendResult]]] = deque()
    settled = 0
    for number, message in messages:
        waiting.append((number, producer.submit(message)))
        while waiting and (len(waiting) >= OUTSTANDING or waiting[0][1].done()):
            _settle(log, *waiting.popleft())
            settled += 1
        meter(settled)
    while waiting:
        _settle(log, *waiting.popleft())
        settled += 1
        meter(settled)


@contextmanager
def sent_live(
    producer: OrderlyProducer, messages: Sequence[Numbered], log: SendLog, meter: Meter
) -> Iterator[Future[None]]:
    """Send `messages` evenly over `LIVE_SECONDS` in a thread; yields what is done at their end.

    No more of them are sent after the block.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1, "orderly-demo-live") as sender:
        try:
            yield sender.submit(send_events, producer, _paced(messages, stop), log, meter)
        finally:
            stop.set()


def _paced(messages: Sequence[Numbered], stop: threading.Event) -> Iterator[Numbered]:
    started, each = time.monotonic(), LIVE_SECONDS / max(1, len(messages))
    for place, numbered in enumerate(messages):
        early = started + place * each - time.monotonic()
        if stop.wait(early) if early > 0 else stop.is_set():
            return
        yield numbered


def _settle(log: SendLog, number: int, future: Future[SendResult]) -> None:
    try:
        result = future.result()
    except OrderlyError as error:
        log.failed[number] = str(error)
    else:
        log.stored[number] = (result.queue, result.queue_offset)
