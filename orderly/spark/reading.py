"""Reading a range of a queue: pulls in, record batches out; no membership, no commit, no lock.

Every message of a range comes once, or the reader says which are gone. Several pulls are in
flight on one connection, and their answers are taken in order. A broker that goes away and comes
back is waited for; the range goes on where it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from orderly.client import Client
from orderly.client.calls import failure
from orderly.errors import (
    BrokerError,
    BrokerUnavailable,
    OrderlyError,
    ProtocolError,
    RemotingError,
    ReplyTooLarge,
    RouteError,
    TopicNotFound,
)
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import from_ext, of_queue, to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.heartbeat import ALL_TAGS, Subscription
from orderly.protocol.pull import PullFlag, PullMessage, PullReply
from orderly.spark.decoding import Ints, Mask, WantedColumns, decode
from orderly.spark.offsets import Loss, OffsetSpan, QueueRange, data_lost, readable
from orderly.spark.options import ScanOptions

LEFT_OUT = "left out by the broker: it can't read them, or its log was compacted"

_Block = tuple[int, int, bytes]


def read_range(
    client: Client, scan: ScanOptions, wanted: QueueRange, losses: Callable[[Loss], None]
) -> Iterator[pa.RecordBatch]:
    """Read a range; what it takes of memory does not depend on the range.

    Nothing but pulls: no membership, no lock, no commit.

    Args:
        client: whose connections are used; it need not be started.
        scan: what is read, and how.
        wanted: the range.
        losses: called with messages that are gone, unless that is an error.

    Returns:
        Batches with the schema of `scan.columns`, made of `scan.batch_bytes` each.

    Raises:
        DataLost: messages of the range are gone, and `scan.fail_on_data_loss`.
        RemotingError, RouteError: the broker was away for too long.
        BrokerError: it refuses.
        ProtocolError: bytes that are no messages.
    """

    def lost(loss: Loss) -> None:
        if scan.fail_on_data_loss:
            raise data_lost([loss])
        losses(loss)

    tags = Subscription.from_expression(wanted.queue.topic, scan.tags, version=0).tags
    columns = WantedColumns(scan.columns, scan.seq_property, tags, scan.only)
    pieces = RangePulls(client, scan, wanted, lost).pieces()
    for start, pulled_to, data in _blocks(pieces, scan.batch_bytes):
        end = min(pulled_to, wanted.end)
        rows = decode(data, wanted.queue, columns, pulled_to)
        if not tags and len(rows.seen) != end - start:
            seen = rows.seen[_between(rows.seen, start, end)]
            for first, last in _holes(seen, start, end):
                lost(Loss(wanted.queue, first, last, LEFT_OUT))
        kept = _between(rows.offsets, start, end)
        batch = rows.batch if kept.all() else rows.batch.filter(pa.array(kept))
        if len(batch):
            yield batch


def _blocks(pieces: Iterable[_Block], size: int) -> Iterator[_Block]:
    """Put pieces that follow each other together, until they have `size` bytes."""
    bodies: list[bytes] = []
    begin = at = gathered = 0
    for start, end, body in pieces:
        if bodies and (start != at or gathered >= size):
            yield begin, at, b"".join(bodies)
            bodies, gathered = [], 0
        if not bodies:
            begin = start
        bodies.append(body)
        gathered += len(body)
        at = end
    if bodies:
        yield begin, at, b"".join(bodies)


def _between(offsets: Ints, start: int, end: int) -> Mask:
    """Which are within a range and rise: a batch that a broker stores as one comes whole."""
    before = np.maximum.accumulate(np.append(start - 1, offsets[:-1])[: len(offsets)])
    found: Mask = (offsets > before) & (offsets < end)
    return found


def _holes(offsets: Ints, start: int, end: int) -> list[tuple[int, int]]:
    """The ranges between `start` and `end` that rising `offsets` leave out."""
    edges = np.concatenate([[start - 1], offsets, [end]])
    before = np.flatnonzero(np.diff(edges) > 1)
    return [(int(edges[i]) + 1, int(edges[i + 1])) for i in before]


# --- the pulls of a range, sent and heard ---------------------------------------------------------


_log = get_logger("orderly.spark")
_ANSWER_TIMEOUT = 15.0  # seconds; nothing is waited for, so a broker answers at once
_PATIENCE = 60.0  # seconds without any progress: a broker's restart takes about 20
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # seconds between attempts

_Outcome = tuple[int, int, RemotingCommand | RemotingError]


class RangePulls:
    """The pulls of one range. One thread reads it; answers come in on the reader thread's.

    Args:
        client: of this process.
        scan: how to pull.
        wanted: the range.
        on_loss: called with offsets that are gone; it raises, or the range goes on behind them.
    """

    def __init__(
        self, client: Client, scan: ScanOptions, wanted: QueueRange, on_loss: Callable[[Loss], None]
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._on_loss = on_loss
        self._requests = PullRequests(wanted.queue, scan.group_prefix, scan.tags)
        # How far an answer gets that is filtered nobody knows, nor where the next begins.
        depth = scan.pull_depth if scan.tags == ALL_TAGS else 1
        self._ahead = PullWindow[Pulled | OffsetSpan](
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

    def _pass_over(self, position: int, span: OffsetSpan) -> None:
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


# --- one pull: its request, and what the reply means ----------------------------------------------
# Bodies stay bytes. Unlike a consumer's (`orderly.client.broker`) a pull never waits for new
# messages.


_GOES_ON = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOT_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True)
class Pulled:
    """Messages, or none where none has a wanted tag.

    Attributes:
        next: the offset to go on with.
        body: stored messages, one after the other.
    """

    next: int
    body: bytes


class PullRequests:
    """The pulls of one queue: equal but for offset and number. Immutable."""

    def __init__(self, queue: MessageQueue, group: str, tags: str) -> None:
        self._what = f"messages of {queue}"
        header = PullMessage(
            consumer_group=group,
            **of_queue(queue),
            queue_offset=0,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            subscription=tags,
            expression_type="TAG",
        )
        self._ext = to_ext(header)

    def pull(self, offset: int, count: int) -> RemotingCommand:
        """Ask for `count` messages from `offset` on."""
        numbers = {"queueOffset": str(offset), "maxMsgNums": str(count)}
        return request(PullMessage.code, {**self._ext, **numbers})

    def answer(self, reply: RemotingCommand, address: str) -> Pulled | OffsetSpan:
        """Read a reply of the broker at `address`.

        Returns:
            Messages, or what the queue holds where that does not include the offset.

        Raises:
            BrokerError: it says no.
            ProtocolError: a header that cannot be read.
        """
        if reply.code in _NOT_THERE:
            header = from_ext(PullReply, reply.ext)
            return OffsetSpan(header.min_offset, header.max_offset)
        if reply.code not in _GOES_ON:
            raise failure(reply, address, self._what)
        return Pulled(_next(reply), reply.body if reply.code == ResponseCode.SUCCESS else b"")


def _next(reply: RemotingCommand) -> int:
    # Not `from_ext`: with 32 messages a pull, reading all of the header is felt.
    try:
        return int(reply.ext["nextBeginOffset"])
    except (KeyError, ValueError) as error:
        raise ProtocolError("a reply to a pull does not say where to go on") from error


# --- which pulls to send before earlier ones are answered -----------------------------------------
# Pure. The answers come out in the order of offsets. An answer may hold fewer messages than asked
# for, since a broker has limits of its own (32 messages or 256 KiB a pull, 8 or 64 KiB from its
# disk, unless it is configured otherwise). What it left out is asked for next, and later answers
# are kept: nothing is pulled twice.


A = TypeVar("A")

_TRUSTED = 32  # full answers after which twice as much is asked for: a limit may have gone


@dataclass(slots=True)
class _Pull(Generic[A]):
    end: int
    answer: A | None = None


class PullWindow(Generic[A]):
    """Pulls of one range. Not thread-safe.

    Args:
        start, end: the offsets to read, `end` not among them.
        batch: messages to ask for at once, at most.
        depth: pulls in flight, at most; answers that wait for an earlier one: as many more.

    Attributes:
        position: all before it was taken.
    """

    def __init__(self, start: int, end: int, *, batch: int, depth: int) -> None:
        self.position = start
        self._end = end
        self._batch = self._step = batch
        self._depth = depth
        self._full_answers = 0
        self._pulls: dict[int, _Pull[A]] = {}  # by their first offset

    def next_pull(self) -> tuple[int, int] | None:
        """The offset and the number of messages to ask for now; None: wait for an answer."""
        waiting = sum(pull.answer is None for pull in self._pulls.values())
        start, end = self._first_gap()
        if start >= end or waiting >= self._depth:
            return None
        if start > self.position and len(self._pulls) >= 2 * self._depth:
            return None
        count = min(self._step, end - start)
        self._pulls[start] = _Pull(start + count)
        return start, count

    def _first_gap(self) -> tuple[int, int]:
        at = self.position
        for start in sorted(self._pulls):
            if start > at:
                return at, start
            at = max(at, self._pulls[start].end)
        return at, self._end

    def answered(self, start: int, end: int, answer: A) -> None:
        """Note an answer that covers the offsets from `start` to `end`.

        One that was not asked for, or is here already, is passed over.
        """
        pull = self._pulls.get(start)
        if pull is None or pull.answer is not None:
            return
        self._learn(end - start, pull.end - start)
        pull.end, pull.answer = end, answer

    def too_much(self, start: int, end: int) -> None:
        """Note that the answer for these offsets was too large: they are asked for in halves."""
        self._pulls.pop(start, None)
        self._learn((end - start) // 2, end - start)

    def _learn(self, got: int, asked: int) -> None:
        if got < asked:
            self._step, self._full_answers = max(got, 1), 0
            return
        self._full_answers += 1
        if self._full_answers >= _TRUSTED:
            self._step, self._full_answers = min(2 * self._step, self._batch), 0

    def take(self) -> Iterator[tuple[int, int, A]]:
        """Take the answers that come next: the first offset each adds, its end, and itself."""
        while self._pulls:
            start = min(self._pulls)
            pull = self._pulls[start]
            if start > self.position or pull.answer is None:
                return
            del self._pulls[start]
            if pull.end > self.position:
                begin, self.position = self.position, pull.end
                yield begin, pull.end, pull.answer

    def forget_unanswered(self) -> None:
        """Ask again for everything that was asked for and is not here."""
        self._pulls = {
            start: pull for start, pull in self._pulls.items() if pull.answer is not None
        }

    def go_to(self, position: int) -> None:
        """Go on from `position`, further on or back; what was asked for before it is given up."""
        self.position = position
        self._pulls = {start: pull for start, pull in self._pulls.items() if start >= position}
