"""Stands between a producer or consumer and its broker, and notes what each request took.

It takes the place of `Client.brokers` in a client that is the measurement's own: so what is
measured is what programs use, and nothing in it has to know of it. It costs a few microseconds a
request, not a message.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from orderly.bench.clock import PhaseClock
from orderly.bench.figures import Where
from orderly.bench.histogram import Histogram
from orderly.client import Client
from orderly.client.pulling import PullQuery
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.protocol.command import RemotingCommand

if TYPE_CHECKING:
    from orderly.client.broker import BrokerCalls

Answer = Callable[[Any], None]


class Requests:
    """What became of the requests of one kind.

    Args:
        telling: what the thread that brings an answer does while it tells it.
        reading: what it does otherwise, if it is no thread of ours.
        count: the messages of an answer.

    Attributes:
        trips: from handing a request over to the taking in of its answer, answers that brought
            something; for pulls that includes how long the broker waited for messages.
        messages: in those answers; of sends and commits the answers themselves.
        empty: answers that brought nothing.
        errors: failed requests by the kind of error.
        in_flight: requests not answered yet.
        noting: whether answers are noted; False: only `in_flight` is.
    """

    def __init__(
        self,
        telling: Where,
        reading: Where,
        count: Callable[[Any], int] = lambda _: 1,
    ) -> None:
        self.telling = telling
        self.reading = reading
        self.count = count
        self.trips = Histogram()
        self.messages = 0
        self.empty = 0
        self.errors: Counter[str] = Counter()
        self.in_flight = 0
        self.noting = True
        self._lock = threading.Lock()

    def began(self) -> None:
        """Note that one is on its way."""
        with self._lock:
            self.in_flight += 1

    def not_sent(self, error: OrderlyError | None = None) -> None:
        """Note that it is not."""
        with self._lock:
            self.in_flight -= 1
            if error is not None and self.noting:
                self.errors[kind_of(error)] += 1

    def ended(self, seconds: float, messages: int, error: OrderlyError | None = None) -> None:
        """Note an answer, or that there was none."""
        with self._lock:
            self.in_flight -= 1
            if not self.noting:
                return
            if error is not None:
                self.errors[kind_of(error)] += 1
            elif messages:
                self.trips.add(seconds)
                self.messages += messages
            else:
                self.empty += 1


def kind_of(error: BaseException) -> str:
    """The name of an error, or of the one that made a send fail."""
    cause = error.__cause__
    return type(cause if isinstance(cause, OrderlyError) else error).__name__


class WatchedBrokers:
    """`BrokerCalls` that are timed; what is not named here goes through as it is.

    Args:
        brokers: the real ones.
        clock: where CPU time is booked.

    Attributes:
        sends, pulls, commits: what became of them.
        pulled: the queues that were pulled, also of the group's retry topic.
    """

    def __init__(self, brokers: BrokerCalls, clock: PhaseClock) -> None:
        self._brokers = brokers
        self._clock = clock
        self.sends = Requests(Where.ANSWERS, Where.ANSWERS)
        self.pulls = Requests(Where.TAKE_IN, Where.DECODE, lambda reply: len(reply.messages))
        self.commits = Requests(Where.COMMIT, Where.OTHER)
        self.pulled: set[MessageQueue] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._brokers, name)

    def send(
        self,
        queue: MessageQueue,
        command: RemotingCommand,
        timeout: float,
        on_result: Answer,
        **how: Any,
    ) -> Any:
        """As `BrokerCalls.send`."""
        with self._clock.during(Where.HAND_OVER):
            attend = self._timed(
                self.sends,
                lambda done: self._brokers.send(queue, command, timeout, done, **how),
                on_result,
            )
        return partial(self._attend, attend) if callable(attend) else attend

    def _attend(self, attend: Callable[[], Any]) -> Any:
        """A caller who waits reads the answer himself."""
        with self._clock.during(Where.ANSWERS):
            return attend()

    def pull(self, query: PullQuery, on_result: Answer, **how: Any) -> Any:
        """As `BrokerCalls.pull`."""
        self.pulled.add(query.queue)
        return self._timed(
            self.pulls, lambda done: self._brokers.pull(query, done, **how), on_result
        )

    def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """As `BrokerCalls.update_offset`."""
        started = time.perf_counter()
        self.commits.began()
        try:
            with self._clock.during(Where.COMMIT):
                self._brokers.update_offset(group, queue, offset)
        except OrderlyError as error:
            self.commits.ended(0.0, 0, error)
            raise
        self.commits.ended(time.perf_counter() - started, 1)

    def _timed(self, requests: Requests, ask: Callable[[Answer], Any], on_result: Answer) -> Any:
        """Ask, and have the answer noted.

        Args:
            requests: where.
            ask: sends the request, and gets the function that is told the answer.
            on_result: is told it in the end.
        """
        started = time.perf_counter()

        def answered(outcome: object) -> None:
            seconds = time.perf_counter() - started
            if isinstance(outcome, OrderlyError):
                requests.ended(seconds, 0, outcome)
            else:
                requests.ended(seconds, requests.count(outcome))
            before = self._clock.enter(requests.telling)
            on_result(outcome)
            self._clock.enter(before or requests.reading)

        requests.began()
        try:
            under_way: Any = ask(answered)
        except OrderlyError as error:
            requests.not_sent(error)
            raise
        if not under_way:
            requests.not_sent()
        return under_way


def watch(client: Client, clock: PhaseClock) -> WatchedBrokers:
    """Put a watch into a client, before anything is made with it."""
    watched = WatchedBrokers(client.brokers, clock)
    client.brokers = cast("BrokerCalls", watched)
    return watched
