"""The sending side of a measurement: threads, each with keys of its own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from orderly.bench.clock import PhaseClock
from orderly.bench.consuming import GROUP
from orderly.bench.figures import Where
from orderly.bench.load import Load, key_indexes, shares
from orderly.bench.plan import SendPlan
from orderly.bench.tally import Tallies
from orderly.bench.watch import kind_of, watch
from orderly.client import Client
from orderly.config import ProducerConfig
from orderly.errors import OrderlyError
from orderly.model import Message, SendResult
from orderly.namespace import wrap
from orderly.producer import OrderlyProducer
from orderly.selectors.layout import layout_of

_HOPELESS = 100  # failures before the first success
_FLUSH = 30.0  # seconds for what is on its way at the end


def _pinned(client: Client, topic: str, plan: SendPlan) -> ProducerConfig:
    """Settings with the topic's present queues as the pin: they will not change."""
    found = client.routes.get(wrap(client.config.namespace, topic))
    return replace(plan.config, layout=str(layout_of(found)))


class Sending:
    """Sends what a plan says, once.

    Args:
        client: of its own, which it changes; it runs, and is closed by who made it.
        topic: as the client's programs name it.
        plan: what to send.
        run: a number that tells this run's messages from others'.
        clock: where CPU time is booked.

    Raises:
        OrderlyError: there is no such topic, or no broker.

    Attributes:
        plan: what to send.
        watched: the requests.
        tallies: what is acknowledged, and what failed.
        finished: set when nothing more will be sent or acknowledged.
        ended_at: when that was, on time.monotonic.
        pausing: how many threads wait for the next message's time; for `SendPlan.rate`.
    """

    def __init__(
        self, client: Client, topic: str, plan: SendPlan, run: int, clock: PhaseClock
    ) -> None:
        self.plan = plan
        self.watched = watch(client, clock)
        self.tallies = Tallies()
        self.finished = threading.Event()
        self.ended_at = 0.0
        self.pausing = 0
        self._producer = OrderlyProducer(GROUP, client=client, config=_pinned(client, topic, plan))
        self._topic = topic
        self._run = run
        self._clock = clock
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to send; returns once the topic's queues are known.

        Raises:
            OrderlyError: as the constructor.
        """
        plan = self.plan
        self._producer.start()
        self._producer.queues(self._topic)
        counts = shares(plan.count, plan.keys, plan.skew, plan.threads)
        ends = time.monotonic() + plan.seconds if plan.seconds else None
        for number, count in enumerate(counts):
            target = partial(self._send_share, number, count, ends)
            thread = threading.Thread(
                target=target, name=f"orderly-bench-send-{number}", daemon=True
            )
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()
        threading.Thread(target=self._finish, name="orderly-bench-finish", daemon=True).start()

    def stop(self) -> None:
        """Send nothing further; what is on its way is waited for by `finished`."""
        self._stop.set()

    def close(self) -> None:
        """End it. Idempotent."""
        self.stop()
        self._producer.close()

    def _finish(self) -> None:
        for thread in self._threads:
            thread.join()
        self._producer.flush(_FLUSH)
        self.ended_at = time.monotonic()
        self.finished.set()

    def _send_share(self, number: int, count: int, ends: float | None) -> None:
        """What one sending thread does."""
        plan = self.plan
        indexes = key_indexes(plan.keys, plan.skew, number, plan.threads)
        load = Load(self._topic, self._run, indexes, plan.keys, plan.size)
        rate = plan.rate and plan.rate * count / plan.count
        send = self._send if plan.sync else self._submit
        self._clock.enter(Where.ENCODE)
        began = time.monotonic()
        for place in range(count):
            if rate:
                self._wait_until(began + place / rate)
            if self._stop.is_set() or (ends is not None and time.monotonic() >= ends):
                break
            send(load.next(time.time_ns()))
        self._clock.enter(None)

    def _wait_until(self, moment: float) -> None:
        wait = moment - time.monotonic()
        if wait > 0:
            self.pausing += 1  # only looked at now and then: a lost count does no harm
            self._stop.wait(wait)
            self.pausing -= 1

    def _send(self, message: Message) -> None:
        began = time.perf_counter()
        try:
            self._producer.send(message)
        except OrderlyError as error:
            self._failed(error)
        else:
            self._stored(len(message.body), time.perf_counter() - began)

    def _submit(self, message: Message) -> None:
        told = partial(self._answered, len(message.body), time.perf_counter())
        try:
            self._producer.submit(message).add_done_callback(told)
        except OrderlyError as error:
            self._failed(error)

    def _answered(self, size: int, began: float, future: Future[SendResult]) -> None:
        error = future.exception()
        if error is None:
            self._stored(size, time.perf_counter() - began)
        else:
            self._failed(error)

    def _stored(self, size: int, seconds: float) -> None:
        tally = self.tallies.mine()
        tally.messages += 1
        tally.bytes += size
        tally.latency.add(seconds)

    def _failed(self, error: BaseException) -> None:
        self.tallies.mine().failed[kind_of(error)] += 1
        if self.tallies.failed().total() >= _HOPELESS and not self.tallies.messages():
            self.stop()
