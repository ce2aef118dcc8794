"""Runs the messages of held queues through the handler, on threads.

A run belongs to one queue and takes one batch after another, each from the lane that has waited
longest. With order by queue there is one run of a queue at a time, with order by key as many as
have something to do; no thread ever waits for a queue or a key. Java:
ConsumeMessageOrderlyService.ConsumeRequest.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial

from orderly.consumer.handling.calling import Caller
from orderly.consumer.handling.engine import Engine
from orderly.consumer.handling.errand import Errand, next_call
from orderly.consumer.handling.pool import WorkerPool
from orderly.consumer.handling.stretch import Stretch
from orderly.consumer.session import Held, Session, now
from orderly.ordering.lane import Batch

MAX_RUN = 60.0  # seconds a run may go on while nobody waits for its thread (as Java)
FAIR_RUN = 0.1  # seconds it may go on once another queue waits for a thread
YIELD = 0.01  # seconds until a run that yielded is resumed (as Java)


class Worker(Engine):
    """Feeds a handler that blocks. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(self, session: Session, caller: Caller, reopened: Callable[[Held], None]) -> None:
        super().__init__(session, caller, reopened)
        config = session.config
        self.pool = WorkerPool(session.group, config.min_workers, config.concurrency)

    def interrupt(self, held: Held) -> None:
        """The queue is lost: a thread cannot be stopped, its handler may look at `context.lost`."""

    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""
        self.pool.close()

    def abandon(self) -> None:
        """Nothing: a thread that began a run ends it."""

    @property
    def inside(self) -> bool:
        """True on a thread that runs handlers."""
        return self.pool.inside

    def _submit(self, held: Held) -> None:
        try:
            self.pool.submit(partial(self._run, held))
        except RuntimeError as error:  # not even one thread can be started
            self._submit_later(held, error)

    def _run(self, held: Held) -> None:
        with held.lock:
            held.owned.begin_run()
        started, batch = now(), None
        try:
            while (batch := self._take(held)) is not None:
                self._work(held, batch)
                if held.owned.wants_bodies(now()):
                    self._reopened(held)
                if self._must_yield(started) and held.owned.dropped is None:
                    self._session.client.schedule.after(YIELD, partial(self._submit, held))
                    return
        except BaseException:
            self._failed(held, batch)  # the lane must not stand still
            raise
        if held.owned.dropped is not None:
            self._session.attention()
        elif held.owned.stuck_full:
            held.log.warning("queue.full", hint="answer COMMIT, or nothing more comes")

    def _work(self, held: Held, batch: Batch) -> None:
        if batch.errand is not None:
            self._run_errand(held, batch, batch.errand)
        elif held.sets_aside(batch.key):
            self._finisher.set_aside(held, batch)
        elif not held.owned.suspects.careful:
            self._handle(held, batch)
        elif self._suspect_runs.open(held, batch):
            self._handle(held, batch)
            self._suspect_runs.close(held)

    def _handle(self, held: Held, batch: Batch) -> None:
        with Stretch(held, batch, self._session.config.batch_size) as stretch:
            while messages := stretch.next_call():
                stretch.called = self._caller.call(held, messages, batch.key)
        self._finisher.finish(held, batch, stretch.outcome)

    def _run_errand(self, held: Held, batch: Batch, errand: Errand) -> None:
        with closing(errand.steps()) as steps:
            called = None
            while (wanted := next_call(steps, called)) is not None:
                called = self._caller.call(held, wanted.messages, batch.key, wanted.mode)
        self._end_errand(held, batch)

    def _must_yield(self, started: float) -> bool:
        ran = now() - started
        return ran >= MAX_RUN or (ran >= FAIR_RUN and self.pool.crowded)
