"""Keeps a long poll open for every held queue.

A reply is taken in on the connection's reader thread, which then asks for the next one: no
hand-off between threads on the hot path. Whatever may connect runs on a small executor instead.
A pull never carries an offset commit: it would slip past the fence of `offset_saver`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from orderly.client.pulling import PullQuery, PullResult, PullStatus
from orderly.consumer.session import Held, Session, now
from orderly.errors import OrderlyError
from orderly.ordering.owned_queue import Drop, Gate

_CONNECTING_THREADS = 4


class Puller:
    """Pulls into the held queues. Thread-safe.

    Args:
        session: the consumer's shared state.
        arrived: called when a queue has messages and its run was claimed for the caller.
    """

    def __init__(self, session: Session, arrived: Callable[[Held], None]) -> None:
        self._session = session
        self._arrived = arrived
        self._namespace = session.client.config.namespace
        self._executor = ThreadPoolExecutor(
            _CONNECTING_THREADS, thread_name_prefix=f"orderly-pull-{session.group}"
        )
        self._closed = False

    def start(self, held: Held) -> None:
        """Begin pulling a queue; returns at once."""
        with contextlib.suppress(RuntimeError):  # closed meanwhile: nothing is pulled any more
            self._executor.submit(self._connect_and_pull, held)

    def reopen(self, held: Held) -> None:
        """Pull again a queue that was full."""
        self._pull(held, may_connect=False)

    def close(self) -> None:
        """Begin no further pull. Idempotent."""
        self._closed = True
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _connect_and_pull(self, held: Held) -> None:
        try:
            self._pull(held, may_connect=True)
        except Exception as error:  # noqa: BLE001 - a queue that is not pulled stands still for ever
            self._failed(held, error)

    def _pull(self, held: Held, *, may_connect: bool) -> None:
        if self._closed:
            return
        with held.lock:
            gate = held.owned.pull_gate(now())
            offset = held.owned.next_pull
        if gate is Gate.OPEN:
            self._send(held, offset, may_connect=may_connect)
        elif gate is Gate.NOT_LOCKED:
            self._session.attention()

    def _send(self, held: Held, offset: int, *, may_connect: bool) -> None:
        session = self._session
        query = PullQuery(
            session.group,
            held.queue,
            offset,
            session.config.pull_batch,
            held.subscription,
        )
        try:
            sent = session.client.brokers.pull(
                query, partial(self._replied, held), may_connect=may_connect
            )
        except OrderlyError as error:
            self._failed(held, error)
            return
        if not sent:
            with held.lock:
                held.owned.pull_failed()
            self.start(held)

    def _replied(self, held: Held, reply: PullResult | OrderlyError) -> None:
        try:
            if isinstance(reply, OrderlyError):
                self._failed(held, reply)
            elif reply.status is PullStatus.OFFSET_ILLEGAL:
                self._offset_illegal(held, reply.next_offset)
            else:
                self._take_in(held, reply)
        except Exception as error:  # noqa: BLE001 - a queue that is not pulled stands still for ever
            self._failed(held, error)

    def _take_in(self, held: Held, reply: PullResult) -> None:
        messages = reply.messages
        if messages:
            seconds = now() - held.owned.pulled_at
            self._session.statistics.pulled(held.queue.topic, len(messages), seconds, now())
        if self._namespace:
            messages = [replace(message, namespace=self._namespace) for message in messages]
        if held.subscription.tags:  # the broker filters by hash; collisions get through
            messages = [m for m in messages if held.subscription.matches(m.tags)]
        with held.lock:
            run = held.owned.pulled(messages, reply.next_offset, reply.max_offset)
        if run:
            self._arrived(held)
        self._pull(held, may_connect=False)

    def _offset_illegal(self, held: Held, correct: int) -> None:
        with held.lock:
            before = held.owned.next_pull
            changed = held.owned.restart_at(correct, Drop.OFFSET_ILLEGAL)
        if changed:
            held.log.warning(
                "the broker refused the offset; the queue starts again where it says",
                refused=before,
                correct=correct,
                skipped=max(0, correct - before),
            )
            self._session.attention()
        elif held.released:
            held.log.warning(
                "a former owner of the queue was told that its offset is illegal; if the offset was"
                " reset just now, look whether the present owner went on from there",
                correct=correct,
            )

    def _failed(self, held: Held, error: Exception) -> None:
        with held.lock:
            held.owned.pull_failed()
        if self._closed:
            return
        retry = self._session.config.pull_retry
        held.log.warning(
            "pull failed",
            error=str(error),
            retry_in_seconds=retry,
            exc_info=None if isinstance(error, OrderlyError) else error,
        )
        self._session.client.schedule.after(retry, partial(self.start, held))
