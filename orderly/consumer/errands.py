"""Runs errands: what needs a lane's turn and calls no handler.

An operator parks a key or drops what is parked of it, or a member stores old parked messages
again. None of this waits for a worker: handlers may run for hours on all of them. A thread of its
own runs the errands of a queue, one after the other, and ends with the last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial

from orderly.clock import now
from orderly.consumer.handler_caller import next_call
from orderly.consumer.session import HeldQueue, Session
from orderly.ordering.lane import Batch
from orderly.ordering.results import Disposition


class Errands:
    """Thread-safe.

    Args:
        session: the consumer's shared state.
        go_on: called after each, for the lane can hand out messages again, or miss their bodies.
        wake_later: called with a queue of which a lane is to go on after so many seconds.

    Attributes:
        begin: runs a function on a new thread; raises RuntimeError if there is none.
    """

    def __init__(
        self,
        session: Session,
        go_on: Callable[[HeldQueue], None],
        wake_later: Callable[[HeldQueue, float], None],
    ) -> None:
        self.begin: Callable[[Callable[[], None]], None] = partial(
            _on_a_thread, f"orderly-errands-{session.group}"
        )
        self._session = session
        self._go_on = go_on
        self._wake_later = wake_later
        self._lock = threading.Lock()
        self._busy: set[HeldQueue] = set()
        self._closed = False

    def run(self, held: HeldQueue) -> None:
        """See that the errands of a queue are run; returns at once."""
        with self._lock:
            if self._closed or held in self._busy:
                return
            self._busy.add(held)
        try:
            self.begin(partial(self._work, held))
        except RuntimeError as error:  # the system has no more threads
            self._begin_later(held, error)

    def close(self) -> None:
        """Begin none any more. Does not wait."""
        self._closed = True

    def _begin_later(self, held: HeldQueue, error: RuntimeError) -> None:
        with self._lock:
            self._busy.discard(held)
        held.log.error("run.not_started", error=str(error))
        self._session.client.schedule.after(self._session.config.suspend, partial(self.run, held))

    def _work(self, held: HeldQueue) -> None:
        try:
            while (batch := self._take(held)) is not None:
                self._run(held, batch)
        finally:
            with self._lock:
                self._busy.discard(held)
        if held.owned.dropped is not None:
            self._session.attention()
        elif held.owned.messages.errand_due:  # it came when this thread had looked
            self.run(held)

    def _take(self, held: HeldQueue) -> Batch | None:
        if self._closed:
            return None
        with held.lock:
            return held.owned.take_errand(now())

    def _run(self, held: HeldQueue, batch: Batch) -> None:
        try:
            with closing(batch.lane_task.steps()) as steps:
                next_call(steps, None)
        except BaseException:  # the lane must go on, and so must the next errand
            held.log.exception("run.failed", hint="a defect of orderly: report it")
        owned, paced = held.owned, None
        with held.lock:
            untried = {message.queue_offset for message in batch.messages}
            if untried and owned.messages.in_work(batch):
                owned.finish(batch, Disposition.PUT_BACK, now(), untried=untried)
            elif owned.messages.in_work(batch):
                paced = owned.give_back(batch, now())
        if paced is not None:
            self._wake_later(held, paced)
        self._go_on(held)


def _on_a_thread(name: str, work: Callable[[], None]) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()
