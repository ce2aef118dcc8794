"""Sends what one queue's outbox gives out, and reports to it what came of that.

The outbox decides under this object's lock; sending, and completing futures, happens outside it.
No thread here sleeps: whoever brings news (a submit, a reply, a timer) takes the next batch
along.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from orderly.client import Client
from orderly.client.broker import Stored
from orderly.client.calls import is_of_wrong_type
from orderly.client.connection import Attend
from orderly.errors import (
    BrokerBusy,
    BrokerError,
    BrokerUnavailable,
    LifecycleError,
    OrderlyError,
    RemotingError,
    SendFailed,
)
from orderly.interruptions import held_here, let_go, shielded
from orderly.model import MessageQueue, SendResult
from orderly.ordering.outbox import E, Failed, Outbox, OutboxBatch, OutboxRules, SendVerdict
from orderly.producer.pending import PendingLimit, PendingSend, fail, succeed
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import of_queue, to_ext
from orderly.protocol.frame import FixedHeader, RemotingCommand
from orderly.protocol.properties import marked
from orderly.protocol.send import SendBatch, SendMessage, encode_batch

_SYS_FLAG, _BORN_TIMESTAMP, _PROPERTIES = "f", "g", "i"  # on the wire; see `protocol.send`
_BAD_MESSAGE = frozenset({ResponseCode.MESSAGE_ILLEGAL, ResponseCode.INVALID_PARAMETER})


class SendCommands:
    """Makes the requests of one queue.

    What all their headers share is written once: a request and its frame take 5 us instead of 10.

    Args:
        group: the producer group.
        queue: where to.
    """

    def __init__(self, group: str, queue: MessageQueue) -> None:
        self._one = _fixed_header(SendMessage, group, queue)
        self._several = _fixed_header(SendBatch, group, queue)

    def make(
        self, entries: Sequence[PendingSend], born: int, *, oneway: bool = False
    ) -> RemotingCommand:
        """The request: 310 for one message, 320 for several.

        Args:
            entries: at least one; several have the same `sys_flag`, which the broker gives to each.
            born: milliseconds since the epoch, the messages' born time.
            oneway: without a reply.
        """
        first = entries[0]
        varying = {_SYS_FLAG: str(first.sys_flag), _BORN_TIMESTAMP: str(born)}
        if len(entries) == 1:
            fixed, body = self._one, first.body
            varying[_PROPERTIES] = _text_of(first, born)
        else:
            fixed = self._several
            body = encode_batch((entry.body, _text_of(entry, born), 0) for entry in entries)
        return fixed.request(varying, body, oneway=oneway)


def _text_of(entry: PendingSend, born: int) -> str:
    """Its properties for the next attempt."""
    text = entry.properties
    return marked(text, entry.copies + 1, born) if entry.copies else text


def _fixed_header(kind: type[SendMessage], group: str, queue: MessageQueue) -> FixedHeader:
    header = kind(producer_group=group, **of_queue(queue), born_timestamp=0)
    return FixedHeader(kind.code, to_ext(header), (_SYS_FLAG, _BORN_TIMESTAMP))


def results_of(
    queue: MessageQueue, entries: Sequence[PendingSend], stored: Stored
) -> list[tuple[PendingSend, SendResult]]:
    """Give each message of a stored batch its result: offsets follow each other."""
    ids = stored.offset_message_ids
    padded = ids if len(ids) == len(entries) else ids[:1] * len(entries)
    return [
        (
            entry,
            SendResult(
                queue, stored.queue_offset + place, entry.message_id, padded[place], stored.status
            ),
        )
        for place, entry in enumerate(entries)
    ]


def verdict_on(error: OrderlyError, batch: OutboxBatch[E], *, sent: bool) -> SendVerdict:
    """Say what a failed attempt means for the batch.

    A generic failure (code 1) is what a broker makes of a batch that one message spoils, but also
    of its own trouble, and a proxy of a broker's silence: a batch is split, a single message is
    retried, both as if unanswered. A proxy refuses every batch for a topic of type FIFO, and takes
    its messages one by one.

    Args:
        error: what the attempt ended with.
        batch: what was sent.
        sent: False: the request did not go out.
    """
    if isinstance(error, LifecycleError):
        return SendVerdict.REFUSED
    if not sent or isinstance(error, BrokerBusy | BrokerUnavailable):
        return SendVerdict.NOT_STORED
    if isinstance(error, RemotingError):
        return SendVerdict.UNKNOWN
    code = error.code if isinstance(error, BrokerError) else None
    if code == ResponseCode.SYSTEM_ERROR:
        return SendVerdict.FAILED_BATCH if len(batch.entries) > 1 else SendVerdict.UNKNOWN
    if len(batch.entries) > 1 and is_of_wrong_type(error):
        return SendVerdict.NO_BATCH
    return SendVerdict.BAD_MESSAGE if code in _BAD_MESSAGE else SendVerdict.REFUSED


# --- the sender of a queue ------------------------------------------------------------------------


_SHORTEST_ATTEMPT = 0.05  # seconds; a retry that begins late still gets a chance of an answer


def _read_elsewhere() -> None:
    """What went out is answered, or times out, without this thread."""


# How the latest batch that was taken goes out. First the message whose sender, a thread of the
# program, took the batch; None: a thread of the library did. Then a list, empty until something of
# the batch went out; see `FrameWriter.write`. Both are replaced at once, by one step.
Attempt = tuple[PendingSend | None, list[int]]


class QueueSender:
    """The sending side of one queue. Thread-safe.

    A program's thread runs `add`, and what that calls, up to the reply that it reads itself. An
    interruption (Ctrl-C, an alarm's exception) can end that between any two steps. Then a thread of
    this library takes over what was left (`_take_over`). All else runs on such threads.

    Args:
        client: sends the requests and keeps the timers.
        executor: runs what may block (connecting, asking for a route).
        queue: where to.
        room: knows the messages whose outcome is not known.
        group: the producer group.
        rules: of the outbox.
        send_timeout: seconds an attempt may take.
        log: for events; bound to the group.
    """

    def __init__(
        self,
        client: Client,
        executor: Executor,
        queue: MessageQueue,
        room: PendingLimit,
        *,
        group: str,
        rules: OutboxRules,
        send_timeout: float,
        log: Any,
    ) -> None:
        self.queue = queue
        self._client = client
        self._executor = executor
        self._room = room
        self._commands = SendCommands(group, queue)
        self._send_timeout = send_timeout
        self._log = log.bind(topic=queue.topic, broker=queue.broker_name, queue_id=queue.queue_id)
        self._lock = threading.RLock()
        self._outbox: Outbox[PendingSend] = Outbox(queue, rules)
        self._attempt: Attempt = (None, [])
        self._wake_at = math.inf  # when the earliest timer fires that was not yet heard of
        self._closed: OrderlyError | None = None

    def add(self, entry: PendingSend) -> None:
        """Send a message behind all others of the queue.

        If it is urgent (the caller waits for it) and goes out alone now, its reply is read on this
        thread. Otherwise this never blocks. After an interruption it can be sent or not; nothing
        stands still, and no other message is concerned.

        Raises:
            LifecycleError: this thread is inside already: a signal's handler or a finalizer sends.
        """
        if held_here(self._lock):
            raise LifecycleError(
                "a signal's handler, or __del__, sends while this thread is inside the producer;"
                " leave a note there, and send it later"
            )
        try:
            self._add(entry)
        except BaseException:
            let_go(self._lock)
            self._aside(self._take_over, entry)
            raise

    def _add(self, entry: PendingSend) -> None:
        now = time.monotonic()
        with self._lock:
            self._room.enter(entry.future)
            if self._closed is not None:
                failed = self._outbox.turn_away(entry, self._closed, now)
            else:
                failed = self._outbox.submit(entry, now)
            later = self._outbox.busy and entry.deadline >= self._wake_at
        if failed:
            for _, error in failed:  # itself; nobody has its future yet
                entry.future.set_exception(error)
        elif not later:  # else the answer to what is in flight takes it along
            self._pump(entry)

    def turn_away(self, entry: PendingSend, cause: Exception) -> None:
        """Fail a message that found no room; its key is held as after any failed send."""
        with self._lock:
            failed = self._outbox.turn_away(entry, cause, time.monotonic())
        fail(failed)

    def resume(self, lane: str) -> None:
        """Let further messages of a lane through."""
        with self._lock:
            self._outbox.resume(lane)

    def hurry(self) -> None:
        """Send what waits for more messages now."""
        with self._lock:
            self._outbox.hurry()
        self._pump()

    def close(self, cause: OrderlyError) -> None:
        """Fail what is not stored yet, and all later messages. Idempotent."""
        with self._lock:
            self._closed = cause
            failed = self._outbox.give_up(cause)
        fail(failed)

    # --- the next batch, and its answer --------------------------------------------------------

    def _pump(self, added: PendingSend | None = None) -> None:
        """Send the next batch, if one may be sent.

        Args:
            added: the message that the program's thread, on which this runs, has just added. None:
                this is a thread of the library.
        """
        batch = self._next(added)
        if batch is None:
            return
        alone = added is not None and added.urgent and batch.entries == [added]
        under_way = self._transmit(batch, may_connect=False, attended=alone)
        if isinstance(under_way, OrderlyError):
            self._aside(self._failed, batch, under_way, sent=False)
        elif under_way is None:
            self._aside(self._connect_later, batch)
        elif alone:
            under_way()

    def _next(self, added: PendingSend | None) -> OutboxBatch[PendingSend] | None:
        now = time.monotonic()
        if added is not None and self._outbox.overdue(now):  # callbacks of the program's may run
            self._aside(self._pump)
            return None
        with self._lock:
            failed = [] if added is not None else self._outbox.expire(now)
            if not self._outbox.busy:
                self._attempt = (added, [])
            batch = self._outbox.take(now, PendingSend.claim)
            broken = self._plan_wake(now)
        if failed:
            self._report(failed)
            fail(failed)
        if broken is not None:
            shielded(partial(self.close, broken))
        return batch

    def _transmit(
        self, batch: OutboxBatch[PendingSend], *, may_connect: bool, attended: bool = False
    ) -> Attend | OrderlyError | None:
        """Send a batch; an error means that it did not go out, None that this thread had to wait.

        What is returned else reads the reply on this thread.
        """
        left = batch.deadline - time.monotonic()
        timeout = max(_SHORTEST_ATTEMPT, min(self._send_timeout, left))
        interruptible, sent = self._attempt
        try:
            command = self._commands.make(batch.entries, batch.born(time.time()))
            command.sent = sent
            return self._client.brokers.send(
                self.queue,
                command,
                timeout,
                partial(self._answered, batch, threading.get_ident() if attended else None),
                may_connect=may_connect,
                attended=attended,
            )
        except OrderlyError as error:
            return error
        except Exception as error:
            if interruptible is not None:  # it may be what a signal's handler raised
                raise
            if sent:
                return _read_elsewhere
            unexpected = OrderlyError(f"the batch could not be sent: {error!r}")
            unexpected.__cause__ = error
            return unexpected

    def _connect_later(self, batch: OutboxBatch[PendingSend]) -> None:
        try:
            self._executor.submit(self._connect_and_send, batch)
        except RuntimeError as error:  # no thread can be started, or the producer was closed
            self._failed(batch, OrderlyError(f"no thread to connect on: {error}"), sent=False)

    def _connect_and_send(self, batch: OutboxBatch[PendingSend]) -> None:
        """Send a batch from a thread that may wait, for a connection or the end of a lost one."""
        with self._lock:
            if self._outbox.in_flight is not batch:
                return  # who wanted this was interrupted and another took it over; or it was closed
            self._attempt = (None, [])
        under_way = self._transmit(batch, may_connect=True)
        if isinstance(under_way, OrderlyError):
            self._failed(batch, under_way, sent=False)

    def _answered(
        self,
        batch: OutboxBatch[PendingSend],
        waiting: int | None,
        outcome: Stored | OrderlyError,
    ) -> None:
        """Take in the answer to a batch; runs on a reader thread, a timer's or a waiting caller's.

        The caller's may be interrupted anywhere here; then the reader thread does it again.

        Args:
            batch: the one that was sent.
            waiting: which thread waits for the answer, or None.
            outcome: where it is stored, or why not.
        """
        if isinstance(outcome, OrderlyError):
            self._aside(self._failed, batch, outcome, sent=True)
            return
        with self._lock:
            first_time = self._outbox.stored(batch)
            empty = self._outbox.empty
        if not empty:  # first, so that the queue is not idle while callbacks run
            self._pump(batch.entries[0] if threading.get_ident() == waiting else None)
        succeed(results_of(self.queue, batch.entries, outcome), first_time=first_time)

    def _failed(self, batch: OutboxBatch[PendingSend], error: OrderlyError, *, sent: bool) -> None:
        """Take in that an attempt failed, and go on."""
        self._refuse(batch, error, sent=sent)
        self._pump()

    def _refuse(self, batch: OutboxBatch[PendingSend], error: OrderlyError, *, sent: bool) -> None:
        verdict = verdict_on(error, batch, sent=sent)
        with self._lock:
            failed = self._outbox.refused(batch, verdict, error, time.monotonic())
        if not failed:
            self._log.info(
                "send.attempt_failed",
                messages=len(batch.entries),
                attempt=batch.attempt,
                verdict=verdict.value,
                error=str(error),
            )
        else:
            self._report(failed)
            fail(failed)

    def _report(self, failed: list[Failed[PendingSend]]) -> None:
        entry, error = failed[0]
        self._log.warning(
            "send.failed", messages=len(failed), key=entry.lane or None, error=str(error)
        )

    # --- timers, and what is left to other threads ---------------------------------------------

    def _plan_wake(self, now: float) -> LifecycleError | None:
        """Have a timer call when the outbox wants to be looked at; one too many does no harm."""
        wake_at = self._outbox.wake_at()
        if wake_at is None or wake_at >= self._wake_at:
            return None
        try:
            self._client.schedule.after(wake_at - now, self._wake)
        except LifecycleError as error:  # the client was closed before this producer
            return error
        self._wake_at = wake_at
        return None

    def _wake(self) -> None:
        with self._lock:
            self._wake_at = math.inf
        self._pump()

    def _aside(self, work: Callable[..., object], *arguments: object, **named: object) -> None:
        """Have a thread of this library do something at once."""
        call = partial(work, *arguments, **named)
        try:
            self._client.schedule.after(0, call)
        except LifecycleError:  # the client was closed before this producer
            shielded(call)

    def _take_over(self, entry: PendingSend) -> None:
        """Go on where the call that added `entry` was interrupted."""
        with self._lock:
            self._outbox.mend()
            added, sent = self._attempt
            if added is entry and not sent:
                self._outbox.put_back()
            lost = not (entry.claimed or self._outbox.has(entry))
        if lost:
            if not entry.future.done():
                error = "the call that sends it was interrupted before it was taken over"
                entry.future.set_exception(SendFailed(error))
            self._room.leave(entry.future)
        self._pump()
