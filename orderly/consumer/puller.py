"""Keeps a long poll open for every held queue.

A reply is taken in on the connection's reader thread, which then asks for the next one: no
hand-off between threads on the hot path. Work that can open a connection runs on a small executor
instead. A pull never carries an offset commit: it would slip past the fence of `offsets`.

Pulls go to the master, and to a slave where the master says so or is down. A slave can lag: only
the messages it brings count.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from orderly.client.broker import PullQuery, PullResult, PullStatus
from orderly.clock import now
from orderly.consumer.copies import copies_before
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import LockLost, OrderlyError, RemotingError, ReplyTooLarge, TopicNotFound
from orderly.log import error_text
from orderly.model import ReceivedMessage, UndecodableMessage
from orderly.namespace import of_send_backs
from orderly.ordering.broker_calls import OffsetReset
from orderly.ordering.pull_window import PullGate
from orderly.ordering.repeats import NONE_MARKED, is_marked

_CONNECTING_THREADS = 4
_MISTRUST = 10.0  # seconds without pulls from slaves after one that failed, or had nothing
_LARGE_RETRY = 30.0  # seconds until a message that is too large is pulled again; it arrives whole


class Puller:
    """Pulls into the held queues. Thread-safe.

    Args:
        session: the consumer's shared state.
        arrived: called when a queue has something to hand out.
        find_out: asks the broker whether a queue's topic was recreated; blocks, raises
            OrderlyError, LockLost if so.
    """

    def __init__(
        self,
        session: Session,
        arrived: Callable[[HeldQueue], None],
        find_out: Callable[[HeldQueue], None],
    ) -> None:
        self._session = session
        self._arrived = arrived
        self._find_out = find_out
        self._namespace = session.client.config.namespace
        self._executor = ThreadPoolExecutor(
            _CONNECTING_THREADS, thread_name_prefix=f"orderly-pull-{session.group}"
        )
        self._closed = False

    def start(self, held: HeldQueue) -> None:
        """Begin pulling a queue; returns at once."""
        with contextlib.suppress(RuntimeError):  # closed meanwhile: nothing is pulled any more
            self._executor.submit(self._connect_and_pull, held)

    def reopen(self, held: HeldQueue) -> None:
        """Pull again a queue that was full, and bodies that were not kept."""
        if held.owned.wants_pull:
            self._pull(held, may_connect=False)
        self._refill(held, may_connect=False)

    def close(self) -> None:
        """Begin no further pull. Idempotent."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _connect_and_pull(self, held: HeldQueue) -> None:
        try:
            if self._in_doubt(held):
                self._settle_doubts(held)
            self._pull(held, may_connect=True)
            self._refill(held, may_connect=True)
        except Exception as error:  # noqa: BLE001 - a queue that is not pulled waits for ever
            self._failed(held, error)

    # --- topics that may have been recreated ---------------------------------------------------

    def _in_doubt(self, held: HeldQueue) -> bool:
        """Whether to find out first. While the master is down it waits: slaves are pulled from.

        Not of a queue that is dropped: nothing more is pulled, and its next owner looks again.
        """
        if not held.doubtful or held.owned.dropped is not None:
            return False
        route = self._session.client.routes.cached(held.queue.topic)
        broker = None if route is None else route.broker(held.queue.broker_name)
        return broker is None or bool(broker.master)

    def _doubt(self, held: HeldQueue, refusal: PullResult | None = None) -> None:
        """Pull nothing more until it is known whether the topic was recreated; returns at once."""
        held.refusal = refusal
        held.doubtful = True
        self.start(held)

    def _doubt_pulled(self, held: HeldQueue, refusal: PullResult | None = None) -> None:
        """The same, with a pull that has ended in doubt."""
        with held.lock:
            held.owned.pull_failed()
        self._doubt(held, refusal)

    def _settle_doubts(self, held: HeldQueue) -> None:
        try:
            self._find_out(held)
        except LockLost:
            return  # it was, or the queue is lost: it is taken again
        except OffsetReset as reset:
            held.refusal = None
            self._told_to_start_at(held, reset.offset, reset=True)
        with held.lock:
            held.owned.forget_end()
        held.doubtful = False
        if held.refusal is not None:
            self._refused(held, held.refusal)
            held.refusal = None

    def _pull(self, held: HeldQueue, *, may_connect: bool) -> None:
        if self._closed or self._in_doubt(held):
            return
        with held.lock:
            gate = held.owned.pull_gate(now())
            offset = held.owned.next_pull
        if gate is PullGate.OPEN:
            self._send(held, offset, may_connect=may_connect)
        elif gate is PullGate.NOT_LOCKED:
            self._session.attention()

    def _send(self, held: HeldQueue, offset: int, *, may_connect: bool) -> None:
        query = self._query(held, offset)
        try:
            sent = self._session.client.brokers.pull(
                query, partial(self._replied, held, query), may_connect=may_connect
            )
        except OrderlyError as error:
            self._failed(held, error)
            return
        if not sent:
            with held.lock:
                held.owned.pull_failed()
            self.start(held)

    def _query(self, held: HeldQueue, offset: int) -> PullQuery:
        session = self._session
        batch, wanted = min(held.pull_batch, session.config.pull_batch), held.subscription
        room = held.owned.messages.room
        query = PullQuery(
            session.group, held.queue, offset, batch, wanted, broker_id=held.replica, room=room
        )
        # An answer at once shows whether the queue can be pulled, also if it is empty.
        return query if held.owned.proven else replace(query, suspend=0.0)

    def _replied(
        self,
        held: HeldQueue,
        query: PullQuery,
        reply: PullResult | OrderlyError,
        marked: Mapping[int, int | None] | None = None,
    ) -> None:
        try:
            if isinstance(reply, OrderlyError) and not isinstance(reply, ReplyTooLarge):
                self._failed(held, reply)
                return
            if self._in_doubt(held):  # it may be of another generation than what is held
                self._doubt_pulled(held, held.refusal)
                return
            if isinstance(reply, ReplyTooLarge):
                self._too_large(held, query, reply)
                return
            found = reply.status is PullStatus.FOUND
            held.replica = reply.suggested_broker_id if found and now() > held.master_until else 0
            if not found and self._is_slave(held, reply.address):
                self._not_at_slave(held)
            elif reply.status is PullStatus.OFFSET_ILLEGAL:
                self._refuse(held, reply)
            elif reply.max_offset < (held.owned.end or 0) and not self._is_slave(
                held, reply.address
            ):
                self._doubt_pulled(held)  # the log got shorter: what comes may be of another one
            elif marked is None and (again := self._sent_again(reply)):
                self._executor.submit(self._look_for_copies, held, query, reply, again)
            else:
                self._take_in(held, reply, marked or NONE_MARKED)
        except Exception as error:  # noqa: BLE001 - a queue that is not pulled waits for ever
            self._failed(held, error)

    def _sent_again(self, reply: PullResult) -> list[ReceivedMessage]:
        """The marked messages of a reply: of them it has to be known what they repeat.

        A send-back keeps the id, so the topics of retries and dead letters are left alone.
        """
        if not reply.marked or not self._session.config.skip_repeats:
            return []
        return [m for m in reply.messages if is_marked(m) and not of_send_backs(m.queue.topic)]

    def _look_for_copies(
        self,
        held: HeldQueue,
        query: PullQuery,
        reply: PullResult,
        again: Sequence[ReceivedMessage],
    ) -> None:
        """Take a reply in once it is known what its marked messages repeat; that may connect."""
        try:
            floor = held.owned.repeats.floor
            marked = copies_before(self._session.client.brokers, query, again, floor)
        except OffsetReset as reset:
            self._told_to_start_at(held, reset.offset, reset=True)
            return
        except Exception as error:  # noqa: BLE001 - as in `_replied`
            self._failed(held, error)
            return
        self._replied(held, query, reply, marked)

    def _too_large(self, held: HeldQueue, query: PullQuery, error: ReplyTooLarge) -> None:
        """Ask for fewer messages; one that alone is too large holds its queue, for none is skipped.

        Asked for again now and then: the offset may have been reset, or the message deleted.
        """
        wait = self._take_fewer(held, query)
        with held.lock:
            held.owned.pull_failed()
            held.owned.too_large = str(query.too_large(error)) if wait else None
        if self._closed:
            return
        if wait is None:
            self._pull(held, may_connect=False)
        else:
            self._log_too_large(held, query, error)
            self._session.client.schedule.after(wait, partial(self.start, held))

    def _take_fewer(self, held: HeldQueue, query: PullQuery) -> float | None:
        """Have the next pull ask for fewer; returns how long to wait if that is not possible."""
        held.pull_batch = query.for_fewer().max_messages
        return None if query.max_messages > 1 else _LARGE_RETRY

    def _log_too_large(self, held: HeldQueue, query: PullQuery, error: ReplyTooLarge) -> None:
        held.log.error(
            "message.too_large",
            offset=query.offset,
            bytes=error.size,
            max_frame=self._session.client.config.max_frame,
            retry_in_seconds=_LARGE_RETRY,
            hint=f"set ClientConfig.max_frame to {error.size} or more; the message is not skipped",
        )

    def _master(self, held: HeldQueue) -> str | None:
        route = self._session.client.routes.cached(held.queue.topic)
        broker = route and route.broker(held.queue.broker_name)
        return broker.master if broker else None

    def _is_slave(self, held: HeldQueue, address: str) -> bool:
        return bool(address) and address != self._master(held)

    def _not_at_slave(self, held: HeldQueue) -> None:
        """Ask the master what the slave does not have; while it is down, the slave later again."""
        held.master_until = now() + _MISTRUST
        with held.lock:
            held.owned.pull_failed()
        if self._master(held) is not None:
            self._pull(held, may_connect=False)
        else:
            retry = self._session.config.pull_retry
            self._session.client.schedule.after(retry, partial(self.start, held))

    def _take_in(
        self, held: HeldQueue, reply: PullResult, marked: Mapping[int, int | None]
    ) -> None:
        if reply.status is PullStatus.FOUND:
            held.pull_batch = min(held.pull_batch + 1, self._session.config.pull_batch)
        messages = self._wanted(held, reply)
        self._log_undecodable(held, messages)
        if messages:
            seconds = now() - held.owned.pulled_at
            self._session.statistics.pulled(held.queue.topic, len(messages), seconds, now())
        keys: list[Hashable] | None = None
        failure: BaseException | None = None
        next_offset = reply.next_offset
        if held.owned.by_key:
            keys, failure = self._keys(messages)
            if failure is not None:
                messages = messages[: len(keys) + 1]
                next_offset = messages.pop().queue_offset
        with held.lock:
            passed = next_offset > held.owned.next_pull
            ready = held.owned.pulled(messages, next_offset, reply.max_offset, keys, marked=marked)
            held.owned.no_key = None if failure is None else self._text_of(failure)
            unseen = passed and held.owned.fence.landmark is None
        if ready:
            self._arrived(held)
        if failure is None:
            if unseen:  # the filter left all out: no message shows of which generation they are
                self._doubt(held)
            self._pull(held, may_connect=False)
            self._refill(held, may_connect=False)
        else:
            self._without_key(held, next_offset, failure)

    def _wanted(self, held: HeldQueue, reply: PullResult) -> list[ReceivedMessage]:
        messages = reply.messages
        if self._namespace:
            messages = [message.changed(namespace=self._namespace) for message in messages]
        if held.subscription.tags:  # the broker filters by hash; collisions get through
            messages = [m for m in messages if held.subscription.matches(m.tags)]
        return messages

    def _log_undecodable(self, held: HeldQueue, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            if isinstance(message, UndecodableMessage):
                held.log.error(
                    "message.undecodable",
                    offset=message.queue_offset,
                    key=message.sharding_key,
                    message_id=message.message_id,
                    why=message.why,
                    bytes=len(message.raw_body),
                )

    def _keys(self, messages: list[ReceivedMessage]) -> tuple[list[Hashable], BaseException | None]:
        """The key of each message, up to the first one that has none by the user's function."""
        keys: list[Hashable] = []
        try:
            for message in messages:
                key = self._session.key(message)
                hash(key)
                keys.append(key)
        except BaseException as error:  # noqa: BLE001 - sys.exit() must not end the reader thread
            return keys, error
        return keys, None

    def _text_of(self, error: BaseException) -> str:
        """As others are shown it: a text that is not ours may quote the message."""
        if isinstance(error, OrderlyError):
            return str(error)
        return type(error).__name__ if self._session.redacts else error_text(error)

    def _without_key(self, held: HeldQueue, offset: int, error: BaseException) -> None:
        """Wait in front of a message of which nobody knows behind which others it has to wait."""
        retry = self._session.config.pull_retry
        held.log.error(
            "key_function.raised",
            offset=offset,
            error=error_text(error),
            retry_in_seconds=retry,
        )
        self._session.client.schedule.after(retry, partial(self.start, held))

    # --- bodies that were not kept -------------------------------------------------------------

    def _refill(self, held: HeldQueue, *, may_connect: bool, at: float = -math.inf) -> None:
        """Pull what lanes miss to go on; later, if they have patience.

        Args:
            held: the queue.
            may_connect: whether this thread may wait for a connection.
            at: when it was to begin (seconds); by its own clock a timer may ring too early.
        """
        if self._closed or self._in_doubt(held):
            return
        moment = max(now(), at)
        with held.lock:
            asked = held.owned.refill_gate(moment)
            due = held.owned.plan_refill(moment) if asked is None else None
        if due is not None:
            work = partial(self._refill, held, may_connect=False, at=due)
            self._session.client.schedule.after(due - moment, work)
        if asked is None:
            return
        query = replace(self._query(held, asked), suspend=0.0, broker_id=0)
        try:
            sent = self._session.client.brokers.pull(
                query, partial(self._refilled, held, query), may_connect=may_connect
            )
        except Exception as error:  # noqa: BLE001 - as in `_connect_and_pull`
            self._refill_failed(held, asked, error)
            return
        if not sent:
            self._refill_later(held, asked)

    def _refilled(
        self, held: HeldQueue, query: PullQuery, reply: PullResult | OrderlyError
    ) -> None:
        asked = query.offset
        try:
            if isinstance(reply, ReplyTooLarge):
                self._refill_too_large(held, query, reply)
            elif isinstance(reply, OrderlyError):
                self._refill_failed(held, asked, reply)
            else:
                self._take_in_bodies(held, asked, reply)
        except Exception as error:  # noqa: BLE001 - as in `_replied`
            self._refill_failed(held, asked, error)

    def _refill_too_large(self, held: HeldQueue, query: PullQuery, error: ReplyTooLarge) -> None:
        if self._closed:
            return
        wait = self._take_fewer(held, query)
        if wait is None:
            self._refill_later(held, query.offset)
            return
        self._log_too_large(held, query, error)
        again = partial(self._refill_later, held, query.offset)
        self._session.client.schedule.after(wait, again)

    def _take_in_bodies(self, held: HeldQueue, asked: int, reply: PullResult) -> None:
        deleted = reply.min_offset > asked and reply.next_offset == reply.min_offset
        reset = reply.status is PullStatus.OFFSET_ILLEGAL and not deleted
        if reply.status is not PullStatus.FOUND and self._is_slave(held, reply.address):
            self._refill_failed(held, asked, OrderlyError("a slave does not always have them yet"))
            return
        if asked > reply.max_offset:
            with held.lock:
                held.owned.refilled(asked, (), asked)
            self._doubt(held, reply)
            return
        if reset:
            self._told_to_start_at(held, reply.next_offset, reset=True)
        elif reply.next_offset <= asked:
            self._refill_failed(held, asked, OrderlyError("the broker does not show them yet"))
            return
        with held.lock:
            end = asked if reset else reply.next_offset
            missing = held.owned.refilled(asked, self._wanted(held, reply), end)
        if missing:
            held.log.error(
                "message.deleted",
                offsets=missing[:20],
                count=len(missing),
                oldest_left=reply.min_offset,
            )
        self._arrived(held)
        self.reopen(held)  # where bodies are lost the offset moved on

    def _refill_failed(self, held: HeldQueue, asked: int, error: Exception) -> None:
        if self._closed:
            return
        held.log.warning(
            "pull.repeat_failed",
            offset=asked,
            error=str(error),
            exc_info=None if isinstance(error, OrderlyError) else error,
        )
        retry = self._session.config.pull_retry
        self._session.client.schedule.after(retry, partial(self._refill_later, held, asked))

    def _refill_later(self, held: HeldQueue, asked: int) -> None:
        """Try again on a thread that may connect; until then the refill counts as under way."""
        with held.lock:
            held.owned.refilled(asked, (), asked)
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._executor.submit(partial(self._refill, held, may_connect=True))

    def _refuse(self, held: HeldQueue, reply: PullResult) -> None:
        asked = held.owned.next_pull
        if reply.min_offset <= asked <= reply.max_offset:  # an operator's reset
            self._refused(held, reply)
        else:
            self._doubt_pulled(held, reply)

    def _refused(self, held: HeldQueue, reply: PullResult) -> None:
        """Go on where the broker says; of one that lost its newest messages: skip none that it has.

        It names its end, and we may have pulled, and not finished, what is below that.
        """
        with held.lock:
            asked, unfinished = held.owned.next_pull, held.owned.offset
        beyond = asked > reply.max_offset
        correct = min(reply.next_offset, unfinished) if beyond else reply.next_offset
        legal = reply.min_offset <= asked and not beyond
        self._told_to_start_at(held, correct, reset=legal)

    def _told_to_start_at(self, held: HeldQueue, offset: int, *, reset: bool) -> None:
        there = self._session.told_to_start_at(held, offset, reset=reset)
        if there and not held.released:  # a reset to where it is, told late: nothing changes
            with held.lock:
                held.owned.pull_failed()
            retry = self._session.config.pull_retry
            self._session.client.schedule.after(retry, partial(self.start, held))

    def _failed(self, held: HeldQueue, error: Exception) -> None:
        with held.lock:
            held.owned.pull_failed(self._text_of(error))
        if self._closed:
            return
        if isinstance(error, TopicNotFound | RemotingError):
            held.doubtful = True
        retry = self._session.config.pull_retry
        if held.replica:  # a slave, which learns of a new topic a minute later: the master, at once
            held.replica, held.master_until, retry = 0, now() + _MISTRUST, 0.0
        held.log.warning(
            "pull.failed",
            offset=held.owned.next_pull,
            error=str(error),
            retry_in_seconds=retry,
            exc_info=None if isinstance(error, OrderlyError) else error,
        )
        self._session.client.schedule.after(retry, partial(self.start, held))
