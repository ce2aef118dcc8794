"""One task of a write: sends a partition's rows, one request in flight for each queue. No pyspark.

The rules are the producer's outbox: a failed request is sent again as it is, to the same queue,
after the time in which the broker may still execute the first. The producer itself is not used:
it keeps a future, an id and a deadline for each message, which costs more than all the rest of a
row; here what is in an outbox is a piece of some hundred messages.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import pyarrow as pa

from orderly.client import Client
from orderly.client.broker import Stored
from orderly.errors import OrderlyError, RemotingError, RouteError, SendFailed, TopicNotFound
from orderly.log import get_logger
from orderly.model import MessageQueue
from orderly.ordering.outbox import (
    Failed,
    Outbox,
    OutboxBatch,
    OutboxEntry,
    OutboxRules,
)
from orderly.producer.pending import MessageIds
from orderly.producer.sender import verdict_on
from orderly.producer.topics import Topics
from orderly.protocol.ext import of_queue, to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.properties import marked
from orderly.protocol.send import SendBatch, decode_batch, encode_batch
from orderly.selectors import KEYED
from orderly.spark.encoding import Encoder, KeySample, Piece, key_sample
from orderly.spark.write_plan import WritePlan

_log = get_logger("orderly.spark")
GROUP = "orderly-spark"
PATIENCE = 120.0  # seconds in which a piece must find its broker: a restart takes less
_LONGEST_BACKOFF = 10.0  # seconds: a broker that is back is not left waiting for minutes
SEND_TIMEOUT = 10.0  # seconds for a request of many messages; a time-out makes copies
_ROOM = 32 * 1024 * 1024  # bytes that wait; beyond, the task waits


@dataclass(slots=True, eq=False)
class _Waiting(OutboxEntry):
    """A piece in an outbox."""

    data: bytes = field(kw_only=True)
    rows: int = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What became of a request."""

    place: int
    batch: OutboxBatch[_Waiting]
    outcome: Stored | OrderlyError


@dataclass(slots=True)
class SentCounts:
    """What was acknowledged.

    Attributes:
        rows: messages.
        doubtful: those of them that were sent again after an attempt whose end is not known: the
            topic may hold them twice.
        weak: those stored with weaker durability than the broker promises (codes 10, 11, 12).
    """

    rows: int = 0
    doubtful: int = 0
    weak: int = 0


class SinkSender:
    """The sends of one task. `put` and `finish` are for one thread.

    Args:
        client: started.
        queues: of the topic, in counting order.
        max_batch_bytes: of one request.
        send_timeout: seconds that a request may take.
        patience: seconds until a piece that cannot be sent is given up.

    Attributes:
        sent: what was acknowledged; to be read after `finish`.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[MessageQueue],
        *,
        max_batch_bytes: int,
        send_timeout: float = SEND_TIMEOUT,
        patience: float = PATIENCE,
    ) -> None:
        rules = OutboxRules(
            retries=1_000_000,  # it is the patience that ends
            longest_backoff=_LONGEST_BACKOFF,
            hold_failed_key=math.inf,
            batch_messages=1_000_000,  # pieces, bounded by their bytes
            batch_bytes=max_batch_bytes,
        )
        self.sent = SentCounts()
        self._client = client
        self._send_timeout = send_timeout
        self._patience = patience
        self._outboxes = [Outbox[_Waiting](at, rules) for at in queues]
        self._news: queue.SimpleQueue[Piece | _Answer | None] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._bytes = 0
        self._failure: OrderlyError | None = None
        self._doubtful: set[int] = set()
        self._thread = threading.Thread(target=self._run, name="orderly-sink-send", daemon=True)
        self._thread.start()

    def put(self, piece: Piece) -> None:
        """Have a piece sent behind all others of its queue; waits while too much is waiting.

        Raises:
            SendFailed: an earlier piece was given up.
        """
        with self._room:
            self._room.wait_for(lambda: self._bytes < _ROOM or self._failure)
            self._raise()
            self._bytes += piece.size
        self._news.put(piece)

    def finish(self) -> SentCounts:
        """Wait until all is acknowledged.

        Raises:
            SendFailed: a piece was given up, and with it everything behind it in its queue.
        """
        with self._room:
            self._room.wait_for(lambda: not self._bytes or self._failure)
            self._raise()
        return self.sent

    def close(self) -> None:
        """Send nothing more. What is in flight may still be stored. Idempotent."""
        self._news.put(None)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    # --- on the thread of its own --------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._failure is None:
                news = self._next_news()
                if news is None:
                    return
                self._take_in(news)
        except BaseException as error:  # noqa: BLE001  the task waits for this thread
            failed = SendFailed(f"the sink failed: {error!r}")
            failed.__cause__ = error
            self._give_up(failed)

    def _next_news(self) -> Piece | _Answer | int | None:
        """What comes next: news, or the place of an outbox whose retry is due."""
        due, place = min((o.wake_at() or math.inf, at) for at, o in enumerate(self._outboxes))
        left = None if due == math.inf else max(due - time.monotonic(), 0.0)
        try:
            return self._news.get(timeout=left)
        except queue.Empty:
            return place

    def _take_in(self, news: Piece | _Answer | int) -> None:
        if isinstance(news, Piece):
            place = news.place
            self._fail(self._outboxes[place].submit(self._waiting(news), time.monotonic()))
        elif isinstance(news, _Answer):
            place = news.place
            self._answered(news)
        else:
            place = news
        self._pump(place)

    def _waiting(self, piece: Piece) -> _Waiting:
        deadline = time.monotonic() + self._patience
        # No lane: the first failure ends all, so there is nothing to hold back afterwards.
        return _Waiting(None, piece.size, 0, deadline, data=piece.data, rows=piece.rows)

    def _pump(self, place: int) -> None:
        """Send what may be sent to a queue."""
        outbox = self._outboxes[place]
        while self._failure is None:
            now = time.monotonic()
            self._fail(outbox.expire(now))
            batch = outbox.take(now, lambda _: True)
            if batch is None:
                return
            error = self._transmit(place, batch)
            if error is None:
                return
            self._refused(place, batch, error, sent=False)

    def _transmit(self, place: int, batch: OutboxBatch[_Waiting]) -> OrderlyError | None:
        """Send a request; an error means that it did not go out."""
        at = self._outboxes[place].queue
        on_result = partial(self._heard, place, batch)
        try:
            self._client.brokers.send(
                at, _command(at, batch), self._send_timeout, on_result, may_connect=True
            )
        except OrderlyError as error:
            return error
        return None

    def _heard(
        self, place: int, batch: OutboxBatch[_Waiting], outcome: Stored | OrderlyError
    ) -> None:
        """Pass an answer on; runs on a reader thread or a timer's."""
        self._news.put(_Answer(place, batch, outcome))

    def _answered(self, answer: _Answer) -> None:
        if isinstance(answer.outcome, OrderlyError):
            self._refused(answer.place, answer.batch, answer.outcome, sent=True)
            return
        self._outboxes[answer.place].stored(answer.batch)
        rows = sum(entry.rows for entry in answer.batch.entries)
        self.sent.rows += rows
        self.sent.doubtful += rows if answer.place in self._doubtful else 0
        self.sent.weak += rows if answer.outcome.status != "SEND_OK" else 0
        self._doubtful.discard(answer.place)
        with self._room:
            self._bytes -= sum(entry.size for entry in answer.batch.entries)
            self._room.notify_all()

    def _refused(
        self, place: int, batch: OutboxBatch[_Waiting], error: OrderlyError, *, sent: bool
    ) -> None:
        verdict = verdict_on(error, batch, sent=sent)
        if verdict.may_be_stored:
            self._doubtful.add(place)
        failed = self._outboxes[place].refused(batch, verdict, error, time.monotonic())
        _log.info(
            "sink.attempt_failed",
            queue=str(self._outboxes[place].queue),
            attempt=batch.attempt,
            verdict=verdict.value,
            error=str(error),
        )
        self._fail(failed)

    def _fail(self, failed: list[Failed[_Waiting]]) -> None:
        if failed:
            error = SendFailed(
                f"{failed[0][1]}. Nothing behind it was sent. Write the same rows again once the"
                " broker takes them: consumers recognise what is then there twice by its ORDERLY_ID"
            )
            error.__cause__ = failed[0][1]
            self._give_up(error)

    def _give_up(self, error: OrderlyError) -> None:
        with self._room:
            self._failure = error
            self._room.notify_all()


def _command(at: MessageQueue, batch: OutboxBatch[_Waiting]) -> RemotingCommand:
    header = SendBatch(
        producer_group=GROUP,
        **of_queue(at),
        born_timestamp=batch.born(time.time()),
    )
    body = b"".join([_data_of(entry, header.born_timestamp) for entry in batch.entries])
    return request(header.code, to_ext(header), body)


def _data_of(entry: _Waiting, born: int) -> bytes:
    """Its members for the next attempt."""
    if not entry.copies:
        return entry.data
    again = entry.copies + 1
    return encode_batch(
        (body, marked(text, again, born), flag) for body, text, flag in decode_batch(entry.data)
    )


# --- a partition ----------------------------------------------------------------------------------


_ROUTE_PATIENCE = 30.0  # seconds that a broker may be away when a task begins
_LOOK_AGAIN = 1.0


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What a task did, after every message was acknowledged. Picklable.

    Attributes:
        partition: its number.
        sent: how many messages.
        keys: which keys, see `key_sample`.
    """

    partition: int
    sent: SentCounts
    keys: KeySample


def send_partition(
    plan: WritePlan, partition: int, batches: Iterable[pa.RecordBatch]
) -> TaskOutcome:
    """Send all rows of a partition.

    Args:
        plan: of the write.
        partition: its number.
        batches: its rows, in order.

    Returns:
        When the last message is acknowledged.

    Raises:
        InvalidMessage: a row that cannot be sent; rows before it may be in the topic.
        SendFailed: a message was given up; rows before it are in the topic, and none behind it in
            its queue.
        LayoutChanged: the topic's queues are not those that the plan counts on; nothing was sent.
    """
    with plan.access.client() as client:
        client.heartbeat.register_producer(GROUP)  # so that brokers list its connections
        queues = _queues(client, plan)
        if plan.selector in KEYED:
            queues = KEYED[plan.selector].counted(queues)
        encoder = Encoder(plan, partition, len(queues), MessageIds(client.client_id))
        with SinkSender(client, queues, max_batch_bytes=plan.max_batch_bytes) as sending:
            for batch in batches:
                for piece in encoder.encode(batch):
                    sending.put(piece)
            sent = sending.finish()
    return TaskOutcome(partition, sent, key_sample(encoder.keys))


def _queues(client: Client, plan: WritePlan) -> Sequence[MessageQueue]:
    """The topic's queues by the plan's layout; waits for brokers that restart."""
    topics = Topics(client.routes, plan.layout, _log)
    deadline = time.monotonic() + _ROUTE_PATIENCE
    while True:
        try:
            return topics.queues(plan.topic, ordered=True)
        except (RouteError, TopicNotFound, RemotingError) as error:
            if time.monotonic() > deadline:
                raise
            _log.info("sink.route_awaited", topic=plan.topic, error=_first_line(error))
        time.sleep(_LOOK_AGAIN)


def _first_line(error: OrderlyError) -> str:
    return str(error).partition("\n")[0]
