"""Pulls a range of a queue: several pulls in flight on one connection, answers in order.

A broker that goes away and comes back is waited for; the range goes on where it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from orderly.client import Client
from orderly.errors import (
    BrokerError,
    BrokerUnavailable,
    OrderlyError,
    RemotingError,
    ReplyTooLarge,
    RouteError,
    TopicNotFound,
)
from orderly.log import get_logger
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.heartbeat import ALL_TAGS
from orderly.spark.offsets.losses import Loss, Span, readable
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.reading.ahead import Ahead
from orderly.spark.reading.pulls import Pulled, Requests
from orderly.spark.reading.scan import Scan

_log = get_logger("orderly.spark")
_ANSWER_TIMEOUT = 15.0  # seconds; nothing is waited for, so a broker answers at once
_PATIENCE = 60.0  # seconds without any progress: a broker's restart takes about 20
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between attempts

_Outcome = tuple[int, int, RemotingCommand | RemotingError]


class Pipeline:
    """The pulls of one range. One thread reads it; answers come in on the reader thread's.

    Args:
        client: of this process.
        scan: how to pull.
        wanted: the range.
        on_loss: told of offsets that are gone; it raises, or the range goes on behind them.
    """

    def __init__(
        self, client: Client, scan: Scan, wanted: QueueRange, on_loss: Callable[[Loss], None]
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._on_loss = on_loss
        self._requests = Requests(wanted.queue, scan.group_prefix, scan.tags)
        # How far an answer gets that is filtered nobody knows: no telling where the next begins.
        depth = scan.pull_depth if scan.tags == ALL_TAGS else 1
        self._ahead = Ahead[Pulled | Span](
            wanted.start, wanted.end, batch=scan.pull_batch, depth=depth
        )
        self._outcomes = SimpleQueue[_Outcome]()
        self._address = ""
        self._worked = False
        self._failing_since: float | None = None
        self._pause = _SHORTEST_PAUSE

    def pieces(self) -> Iterator[tuple[int, int, bytes]]:
        """Pull the range: the offsets from and up to which, and the stored messages.

        Raises:
            RemotingError, RouteError: the broker was away for too long.
            BrokerError: it refuses.
            ProtocolError: a reply that cannot be read.
        """
        self._renew_route()  # a worker's client may know it from hours ago
        while self._ahead.position < self._wanted.end:
            try:
                self._send()
                self._hear()
                pieces = self._take()
            except OrderlyError as error:
                self._wait_out(error)
                continue
            if pieces:
                self._worked, self._failing_since, self._pause = True, None, _SHORTEST_PAUSE
            yield from pieces

    def _send(self) -> None:
        """Send all pulls that may go."""
        pull = self._ahead.next_pull()
        if pull is None:
            return
        self._address = self._present_address()
        connection = self._client.connections.get(self._address)
        while pull is not None:
            start, count = pull
            connection.submit(
                self._requests.pull(start, count), _ANSWER_TIMEOUT, self._note(start, count)
            )
            pull = self._ahead.next_pull()

    def _present_address(self) -> str:
        try:
            return self._client.routes.address(self._wanted.queue)
        except TopicNotFound as error:  # so says a name server while a lone broker restarts
            raise RouteError(str(error)) from error

    def _note(self, start: int, count: int) -> Callable[[RemotingCommand | RemotingError], None]:
        outcomes = self._outcomes  # what a given up attempt still brings, nobody hears
        return lambda outcome: outcomes.put((start, start + count, outcome))

    def _hear(self) -> None:
        """Wait for one answer; each pull has its own, or its time-out."""
        start, end, outcome = self._outcomes.get()
        if isinstance(outcome, ReplyTooLarge) and end - start > 1:
            self._ahead.too_much(start, end)
            return
        if isinstance(outcome, ReplyTooLarge):
            place = f"the message of {self._wanted.queue} at offset {start}, or the next one"
            text = f"{place}: {outcome}"
            raise ReplyTooLarge(text, outcome.address, size=outcome.size) from outcome
        if isinstance(outcome, RemotingError):
            raise outcome
        answer = self._requests.answer(outcome, self._address)
        if isinstance(answer, Pulled):
            end = answer.next
            if end <= start:
                raise self._stuck(start)
        self._ahead.answered(start, end, answer)

    def _take(self) -> list[tuple[int, int, bytes]]:
        pieces: list[tuple[int, int, bytes]] = []
        for start, end, answer in self._ahead.take():
            if isinstance(answer, Pulled):
                pieces.append((start, end, answer.body))
                continue
            self._ahead.go_to(start)
            if not pieces:  # else it is asked once more, when they are out
                self._pass_over(start, answer)
            break
        return pieces

    def _pass_over(self, position: int, span: Span) -> None:
        queue, end = self._wanted.queue, self._wanted.end
        _, losses = readable(QueueRange(queue, position, end), span)
        if not losses or losses[0].start > position:
            raise self._stuck(position)
        self._on_loss(losses[0])
        self._ahead.go_to(losses[0].end)

    def _stuck(self, offset: int) -> BrokerUnavailable:
        return BrokerUnavailable(
            f"the broker {self._address} says that {self._wanted.queue} has a message at {offset}"
            " and does not give it; look at its log, it may be recovering its files",
            address=self._address,
        )

    def _wait_out(self, error: OrderlyError) -> None:
        """Wait before the next attempt; raise what will not pass, or has not for too long."""
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
            _log.warning("spark.pull_failed", queue=str(self._wanted.queue), error=str(error))
        if not self._may_pass(error) or now - self._failing_since > _PATIENCE:
            raise error
        self._outcomes = SimpleQueue()
        self._ahead.forget_unanswered()
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._renew_route()

    def _renew_route(self) -> None:
        with contextlib.suppress(OrderlyError):  # the known route may still be right
            self._client.routes.refresh(self._wanted.queue.topic)

    def _may_pass(self, error: OrderlyError) -> bool:
        """While a broker starts or stops, it and the name server say no to what they did before.

        The queue was in the route when the range was chosen, so that one will come back.
        """
        if isinstance(error, RouteError):
            return True
        return error.retriable or (self._worked and isinstance(error, BrokerError))
