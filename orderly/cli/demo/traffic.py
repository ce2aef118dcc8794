"""The demo's messages: each event by its aircraft's key, and the members that consume them."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import tenacity

from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.screen import LaneView, Meter, Screen
from orderly.cli.demo.trouble import (
    BadRecord,
    EngineTroubleError,
    FailingEvent,
    ReadTime,
    TakeOver,
    pick_bad,
    pick_failing,
    read_time,
    read_time_fixed,
)
from orderly.config import ConsumerConfig
from orderly.consumer import OrderlyConsumer
from orderly.errors import OrderlyError
from orderly.listening import Attempt, Outcome, PoisonRules, Retry, listener
from orderly.message import Message
from orderly.model import MessageQueue, SendResult
from orderly.ordering.allocation import averagely
from orderly.ordering.results import Ack
from orderly.producer import OrderlyProducer

MOST_LIVE = 5_000
OUTSTANDING = 5000  # results awaited at most
LIVE_SECONDS = 8.0
Numbered = tuple[int, Message]
"""A message and its event's number."""


@dataclass(frozen=True, slots=True)
class Stream:
    """All events in order of time; a message's number is its event's place.

    Attributes:
        events: of the flights.
        first_live: number of the first one that is sent while the members run.
        bad: the one that is spoiled; it is among those.
        failing: the one that fails a few times; it is not.
    """

    events: Sequence[FlightEvent]
    first_live: int
    bad: BadRecord
    failing: FailingEvent

    def at_once(self, topic: str) -> Iterator[Numbered]:
        """The messages that are sent before anybody consumes."""
        return ((number, self._message(topic, number)) for number in range(self.first_live))

    def live(self, topic: str) -> list[Numbered]:
        """The messages that are sent while the members run."""
        numbers = range(self.first_live, len(self.events))
        return [(number, self._message(topic, number)) for number in numbers]

    def _message(self, topic: str, number: int) -> Message:
        """Keyed by the aircraft, tagged with what happened."""
        event = self.events[number]
        body = event.body(number, self.bad.time if number == self.bad.number else None)
        return Message(topic, body, sharding_key=event.tail, tags=event.kind)


def stream_of(events: Sequence[FlightEvent], seed: int) -> Stream:
    """Choose what is sent live, and which two events make trouble."""
    first_live = len(events) - min(len(events) // 2, MOST_LIVE)
    number = pick_failing(events[:first_live], seed)
    event = events[number]
    failing = FailingEvent(number, event.tail, f"{event.tail}'s {event.kind} of {event.time}")
    return Stream(events, first_live, pick_bad(events, first_live), failing)


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


# --- members of one group, a record of all they are handed, and a watch ---------------------------


SURVIVOR, LEAVER, FIXED = "A", "B", "C"
SUSPEND = 0.5  # seconds a key waits after a failure, at first
# For a demo: by default it takes 5 tries in 60 s.
QUICK = PoisonRules(attempts=3, spacing=0.2, span=1.0, first_wait=SUSPEND)
NO_RETRY = Retry(stop=tenacity.stop_after_attempt(1))
TICK = 0.1  # seconds between looks
PATIENCE = 90.0  # seconds without a delivery until the demo gives up; a lost lease takes 60
Ends = Mapping[MessageQueue, int]
"""For each queue the offset behind its last message."""


@dataclass(frozen=True, slots=True)
class DemoDelivery:
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

    deliveries: list[DemoDelivery] = field(default_factory=list)
    backlog: tuple[int, float] = (0, 0.0)
    take_over: TakeOver | None = None

    @property
    def rate(self) -> float:
        """Deliveries a second of the backlog."""
        count, seconds = self.backlog
        return count / seconds if seconds else 0.0


class DemoMembers:
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
        news: lines to show, oldest first.
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
        fixed = self._consumers[FIXED] = self._member(FIXED, read_time_fixed)
        fixed.subscribe(self.topic).start()
        for name in (SURVIVOR, LEAVER):
            self._consumers[name].close()

    # --- the handlers' side ----------------------------------------------------------------------

    def _member(self, name: str, read: ReadTime) -> OrderlyConsumer:
        @listener(
            on_poison="park_key",
            poison=QUICK,
            retry=NO_RETRY,
            on_error={EngineTroubleError: "wait"},
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
            DemoDelivery(
                name, queue, offset, key, number, succeeded, started, ended, attempt.replayed
            )
        )
        if succeeded:
            self.handled[queue].add(offset)


# --- watching ------------------------------------------------------------------------------------


def watch_backlog(members: DemoMembers, ends: Ends, screen: Screen) -> None:
    """Return when every queue is drained, or when nothing moves any more."""
    started, total = time.monotonic(), sum(ends.values())
    with screen.lanes() as show:

        def drained() -> bool:
            if members.count() * 2 >= total:
                members.let_one_leave()
            _show_take_over(members, ends, screen)
            show(lanes_of(members, ends))
            return members.drained(ends) == ends.keys()

        wait_until(drained, members, screen)
    members.log.backlog = len(members.log.deliveries), time.monotonic() - started


def wait_until(condition: Callable[[], bool], members: DemoMembers, screen: Screen) -> None:
    """Wait for `condition`, or until nothing moves any more, and show the news."""
    seen, moved = -1, time.monotonic()
    while not condition():
        if len(members.log.deliveries) > seen:
            seen, moved = len(members.log.deliveries), time.monotonic()
        if time.monotonic() - moved > PATIENCE:
            screen.event(f"nothing was delivered for {PATIENCE:.0f} s; giving up")
            break
        _show_news(members, screen)
        time.sleep(TICK)
    _show_news(members, screen)


def lanes_of(members: DemoMembers, ends: Ends) -> list[LaneView]:
    """Every queue in its present state."""
    owners = members.owners()
    failing = members.stream.failing
    waiting = failing.queue if failing.waiting else None
    return [
        LaneView(
            queue.queue_id,
            end,
            len(members.handled[queue]),
            owners.get(queue, ""),
            waiting=queue == waiting,
        )
        for queue, end in sorted(ends.items())
    ]


def _show_news(members: DemoMembers, screen: Screen) -> None:
    while members.news:
        screen.event(members.news.popleft())


def _show_take_over(members: DemoMembers, ends: Ends, screen: Screen) -> None:
    take_over = members.log.take_over
    if take_over and not take_over.shown and take_over.over(members.drained(ends)):
        take_over.shown = True
        screen.event(take_over.story())
